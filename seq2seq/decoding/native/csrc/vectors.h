/* Vectors as wide as the processor's registers. GCC and Clang turn arithmetic on these types into
 * its instructions, whatever it is; the code that uses them says nothing of any processor. */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, REGISTERS = 32 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32, REGISTERS = 16 };
#elif defined(__aarch64__)
enum { VECTOR_BYTES = 16, REGISTERS = 32 };
#else
enum { VECTOR_BYTES = 16, REGISTERS = 16 };
#endif
enum { LANES = VECTOR_BYTES / 4 };

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef int8_t i8vec __attribute__((vector_size(VECTOR_BYTES)));

static inline vec load(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vec v) { memcpy(p, &v, sizeof v); }

static inline vec broadcast(float x) { return x - (vec){0}; }

static inline ivec broadcast_int(int32_t x) { return x - (ivec){0}; }

/* Each lane of a where the mask is set (all its bits), else that of b. */
static inline vec blend(ivec mask, vec a, vec b) {
    return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
}

/* The larger of each lane; b where neither is, as with NaN. Compilers do not see that there is an
 * instruction for just this. */
static inline vec maximum(vec a, vec b) {
#if defined(__AVX512F__)
    return _mm512_max_ps(a, b);
#elif defined(__AVX__)
    return _mm256_max_ps(a, b);
#else
    return blend(a > b, a, b);
#endif
}

/* The first n numbers of p, 1 <= n; lanes after them are zero. */
static inline vec load_partial(const float *p, int64_t n) {
    vec v = {0};
    if (n >= LANES) return load(p);
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}

static inline void store_partial(float *p, vec v, int64_t n) {
    if (n >= LANES) store(p, v);
    else memcpy(p, &v, (size_t)n * sizeof *p);
}

/* Is any lane of a comparison true? */
static inline int any_true(ivec mask) {
    int64_t parts[VECTOR_BYTES / 8], found = 0;
    memcpy(parts, &mask, sizeof mask);
    for (int i = 0; i < VECTOR_BYTES / 8; i++) found |= parts[i];
    return found != 0;
}

/* The sum of all lanes, four of them at a time. */
static inline float reduce_sum(vec v) {
    typedef float four __attribute__((vector_size(16)));
    four parts[VECTOR_BYTES / 16], sum;
    memcpy(parts, &v, sizeof v);
    sum = parts[0];
    for (int i = 1; i < VECTOR_BYTES / 16; i++) sum += parts[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static inline int32_t reduce_sum_int(ivec v) {
    int32_t sum = 0;
    for (int i = 0; i < LANES; i++) sum += v[i];
    return sum;
}

static inline float reduce_max(vec v) {
    float most[4], parts[LANES];
    store(parts, v);
    for (int i = 0; i < 4; i++) most[i] = parts[i];
    for (int i = 4; i < LANES; i++) most[i % 4] = parts[i] > most[i % 4] ? parts[i] : most[i % 4];
    const float a = most[0] > most[1] ? most[0] : most[1];
    const float b = most[2] > most[3] ? most[2] : most[3];
    return a > b ? a : b;
}

/* e^x for x <= 0 to 1 unit in the last place: 2^n times e^r, |r| <= ln(2) / 2, by the polynomial with
 * the least relative error. From -87 down it is e^-87, which vanishes beside 1. NaN stays NaN. */
static inline vec vector_exp(vec x) {
    const vec magic = broadcast(12582912.0f); /* adding 1.5 * 2^23 rounds to an integer */
    const vec inside = maximum(broadcast(-87.0f), x);
    const vec rounded = inside * 1.44269504f + magic;
    const vec power = (vec)(((ivec)rounded << 23) + (127 << 23));
    const vec n = rounded - magic;
    const vec r = inside - n * 0.693145752f - n * 1.42860677e-6f;
    vec series = r * 0.00138367945f + 0.00837485678f;
    series = series * r + 0.0416682288f;
    series = series * r + 0.166664198f;
    series = series * r + 0.499999911f;
    series = series * r + 1.0f;
    series = series * r + 1.0f;
    return series * power;
}

static inline vec sigmoid(vec x) {
    const vec tail = vector_exp(-maximum(x, -x));
    return blend(x < broadcast(0), tail, broadcast(1)) / (1.0f + tail);
}

/* tanh x to 6 units in the last place: a quotient of polynomials (Eigen's). From 7.9 on it is 1 as
 * float32 sees it. NaN stays NaN. */
static inline vec vector_tanh(vec x) {
    const vec most = broadcast(7.90531110763549805f);
    const vec inside = -maximum(-most, -maximum(-most, x)), square = inside * inside;
    vec odd = square * -2.76076847742355e-16f + 2.00018790482477e-13f;
    odd = odd * square - 8.60467152213735e-11f;
    odd = odd * square + 5.12229709037114e-08f;
    odd = odd * square + 1.48572235717979e-05f;
    odd = odd * square + 6.37261928875436e-04f;
    odd = odd * square + 4.89352455891786e-03f;
    vec even = square * 1.19825839466702e-06f + 1.18534705686654e-04f;
    even = even * square + 2.26843463243900e-03f;
    even = even * square + 4.89352518554385e-03f;
    return inside * odd / even;
}

#endif
