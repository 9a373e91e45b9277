/* The one operation of 8-bit products, by the instructions of each processor, and in plain C. */
#ifndef DOT4_H
#define DOT4_H

#include "vectors.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

/* The instructions of ARM multiply bytes with signs. Those of x86 multiply bytes without a sign by
 * others with one. There, activations are stored with ZERO_POINT added, as that of AVX-512 VNNI
 * needs them; or, for AVX2, which has room for 127 * 128 twice and no more, as magnitudes and signs
 * (0 or -1): for those below zero it computes |x| (-w - 1), and what that lacks, the sum of these
 * |x|, is added to all sums of a row. */
#if defined(__AVX512VNNI__) && !defined(REFERENCE)
enum { ZERO_POINT = 128, HAS_SIGNS = 0 };
#elif defined(__AVX2__) && !defined(REFERENCE)
enum { ZERO_POINT = 0, HAS_SIGNS = 1 };
#else
enum { ZERO_POINT = 0, HAS_SIGNS = 0 };
#endif

/* Each lane of `sum`, plus the four products of bytes in that lane of x and w. Exact for bytes of w
 * from -127 to 127, and of x from -127 to 127, stored as above; `signs` count only if there are
 * any. Sums fit into 32 bits up to (2^31 - 1) / (127 (127 + 128)) inputs: 66,311. Maps of more are
 * refused before they come here: see MAX_INPUTS in quantization.py. */
static inline ivec dot4(ivec sum, ivec x, ivec signs, ivec w) {
    const ivec signed_w = HAS_SIGNS ? w ^ signs : w;
#if defined(__AVX512VNNI__) && !defined(REFERENCE)
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)signed_w);
#elif defined(__AVX512BW__) && !defined(REFERENCE)
    const __m512i pairs = _mm512_maddubs_epi16((__m512i)x, (__m512i)signed_w);
    return sum + (ivec)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif defined(__AVX2__) && !defined(__AVX512F__) && !defined(REFERENCE)
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)x, (__m256i)signed_w);
    return sum + (ivec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__aarch64__) && !defined(REFERENCE)
    const int8x16_t a = (int8x16_t)x, b = (int8x16_t)signed_w;
#if defined(__ARM_FEATURE_DOTPROD)
    return (ivec)vdotq_s32((int32x4_t)sum, a, b);
#endif
    /* 16 bits have room for two products, 2 * 127 * 127. */
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
    return (ivec)vpadalq_s16((int32x4_t)sum, vpaddq_s16(low, high));
#else
    const i8vec a = (i8vec)x, b = (i8vec)signed_w;
    for (int i = 0; i < LANES; i++)
        for (int j = 4 * i; j < 4 * i + 4; j++) sum[i] += a[j] * b[j];
    return sum;
#endif
}

#endif
