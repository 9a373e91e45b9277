/* The one operation of 8-bit products, by the instructions of each processor, and in plain C. */
#ifndef DOT4_H
#define DOT4_H

#include "vectors.h"

#if defined(__AVX2__) && !defined(REFERENCE)
#include <immintrin.h>
#endif

/* Activations are stored with this added, as the instruction of AVX-512 VNNI needs them. */
#if defined(__AVX512VNNI__) && !defined(REFERENCE)
enum { ZERO_POINT = 128 };
#else
enum { ZERO_POINT = 0 };
#endif

/* Each lane of `sum`, plus the four products of bytes in that lane of x and w. Exact for bytes of w
 * from -127 to 127, and of x from -127 to 127, ZERO_POINT added. Sums fit into 32 bits up to
 * (2^31 - 1) / (127 (127 + ZERO_POINT)) inputs: 66,311 with AVX-512 VNNI, 133,144 without. Maps of
 * more than 66,311 are refused before they come here: see MAX_INPUTS in quantization.py. */
static inline ivec dot4(ivec sum, ivec x, ivec w) {
#if defined(__AVX512VNNI__) && !defined(REFERENCE)
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
#elif defined(__AVX2__) && !defined(REFERENCE)
    /* |x| * (w with the sign of x): a sum of two such products fits into 16 bits. */
    for (int half = 0; half < VECTOR_BYTES / 32; half++) {
        __m256i s, a, b;
        memcpy(&s, (char *)&sum + half * 32, 32);
        memcpy(&a, (char *)&x + half * 32, 32);
        memcpy(&b, (char *)&w + half * 32, 32);
        __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
        s = _mm256_add_epi32(s, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        memcpy((char *)&sum + half * 32, &s, 32);
    }
    return sum;
#else
    const i8vec a = (i8vec)x, b = (i8vec)w;
    for (int i = 0; i < LANES; i++)
        for (int j = 4 * i; j < 4 * i + 4; j++) sum[i] += a[j] * b[j];
    return sum;
#endif
}

#endif
