/* The product of some rows with a large matrix, in float32 or in 8-bit integers.
 *
 * Both numbers come in units of 4 bytes: a float, or the integers of four inputs; the depth of a
 * product is counted in these. The loops are those of BLIS (Van Zee and van de Geijn 2015), and so
 * are the letters: rows x columns of a product are cut into
 *
 *     MC x NC  blocks, whose sums stay in a cache while what follows the product reads them,
 *     MC x NR  of which share a panel, NR columns of W: it is read from memory once,
 *     KC       units at a time, which stay in the first cache,
 *     MR x NR  tiles, whose sums stay in registers.
 *
 * An element is the sum of the sums of its KC units, in the order of the inputs: what a row gives
 * does not depend on the others, and the error of its rounding grows with KC + inputs / KC, not
 * with the inputs. */
#include "dot4.h"
#include "kernels.h"

/* The sums of a tile and a row of the panel fill the registers. */
enum { MR = REGISTERS == 32 ? 6 : 5, MR_MAX = 6 };
enum { KC = 256, MC = 240 };
enum { PREFETCH = 24 }; /* units ahead of the one that is multiplied */

int32_t s2s_panel_width(void) { return NR; }

static int64_t depth_of(int64_t in_features, int is_int8) {
    return is_int8 ? (in_features + 3) / 4 : in_features;
}

int64_t linear_depth(const Linear *map) { return depth_of(map->in_features, map->is_int8); }

/* panels: (panel, input, NR) */
void s2s_pack_float32(const float *weight, int64_t in_features, int64_t out_features,
                      float *panels) {
    for (int64_t first = 0; first < out_features; first += NR)
        for (int64_t i = 0; i < in_features; i++)
            for (int64_t c = first; c < first + NR; c++)
                *panels++ = c < out_features ? weight[c * in_features + i] : 0;
}

/* panels: (panel, unit, NR, 4) */
void s2s_pack_int8(const int8_t *weight, int64_t in_features, int64_t out_features, int8_t *panels,
                   int32_t *weight_sums) {
    for (int64_t first = 0; first < out_features; first += NR)
        for (int64_t i = 0; i < 4 * depth_of(in_features, 1); i += 4)
            for (int64_t c = first; c < first + NR; c++)
                for (int64_t j = i; j < i + 4; j++) {
                    const int is_padding = c >= out_features || j >= in_features;
                    *panels++ = is_padding ? 0 : weight[c * in_features + j];
                }
    for (int64_t c = 0; c < out_features; c++) {
        weight_sums[c] = 0;
        for (int64_t i = 0; i < in_features; i++) weight_sums[c] += weight[c * in_features + i];
    }
}

/* Bytes of the integers of a row: whole vectors of them. */
static int64_t int8_width(int64_t in_features) {
    return (in_features + VECTOR_BYTES - 1) / VECTOR_BYTES * VECTOR_BYTES;
}

/* The same with all that is stored of a row: its integers; if there are signs, also these, and last
 * the number (int32_t) that is added to all of its sums. */
int64_t int8_stride(int64_t in_features) {
    return int8_width(in_features) * (1 + HAS_SIGNS) + HAS_SIGNS * LANES;
}

/* Of a block of rows: its integers (MC, int8_stride), their scales (MC,), sums (MC, NC). */
int64_t linear_workspace(int64_t rows, int64_t in_features) {
    const int64_t block = rows < MC ? rows : MC;
    return block * (int8_stride(in_features) + (NC + 1) * (int64_t)sizeof(float));
}

/* The largest magnitude of a row / 127, and more than 0. */
static float scale_of_row(const float *x, int64_t in_features) {
    vec most = broadcast(0);
    for (int64_t i = 0; i < in_features; i += LANES) {
        const vec v = load_partial(x + i, in_features - i);
        most = maximum(maximum(v, -v), most);
    }
    return reduce_max(most) * (1.0f / 127) + 1e-30f;
}

/* x (rows, in_features) -> each row rounded to integers of -127 ... 127, (rows, int8_stride), and
 * its scale, (rows,): the calibrated one, beyond which numbers are cut, or its own; NaN for a row
 * with a NaN or an infinity. */
void quantize_rows(const Linear *map, const float *x, int64_t rows, int8_t *integers,
                   float *scales) {
    const int64_t in_features = map->in_features;
    const vec limit = broadcast(127);
    for (int64_t r = 0; r < rows; r++, x += in_features, integers += int8_stride(in_features)) {
        const int is_calibrated = map->input_scale > 0;
        const float scale = is_calibrated ? map->input_scale : scale_of_row(x, in_features);
        const float inverse = 1 / scale;
        vec broken = broadcast(0);
        ivec shift = broadcast_int(0);
        for (int64_t i = 0; i < in_features; i += VECTOR_BYTES) {
            int32_t wide[VECTOR_BYTES];
            i8vec bytes;
            for (int64_t j = 0; j < VECTOR_BYTES; j += LANES) {
                const int64_t left = in_features - i - j;
                const vec v = left > 0 ? load_partial(x + i + j, left) : broadcast(0);
                const vec inside = -maximum(-limit, -maximum(-limit, v * inverse));
                /* Adding 1.5 * 2^23 rounds, and leaves the integer in the lowest bits. */
                const ivec integer = (ivec)(inside + 12582912.0f) - 0x4B400000;
                broken += v * 0.0f;
                memcpy(wide + j, &integer, sizeof integer);
            }
            for (int j = 0; j < VECTOR_BYTES; j++) bytes[j] = (int8_t)wide[j];
            const i8vec signs = HAS_SIGNS ? bytes < 0 : (i8vec)broadcast_int(0);
            bytes = ((bytes ^ signs) - signs) ^ (int8_t)ZERO_POINT;
            memcpy(integers + i, &bytes, sizeof bytes);
            if (!HAS_SIGNS) continue;
            memcpy(integers + int8_width(in_features) + i, &signs, sizeof signs);
            shift = dot4(shift, (ivec)bytes, broadcast_int(0), (ivec)signs);
        }
        scales[r] = scale + reduce_sum(broken);
        const int32_t sum = -reduce_sum_int(shift);
        if (HAS_SIGNS) memcpy(integers + int8_stride(in_features) - 4, &sum, 4);
    }
}

enum { FLOATS, INTEGERS, SIGNED_INTEGERS };

/* The micro-kernel: to the sums of a tile, (rows, NC), add those of some units of x (rows, stride)
 * times those of the panel; with the first units they begin. Integers are laid out as
 * `quantize_rows` says. Inlined for constant `kind` and `rows` and unrolled, so that the sums stay in
 * registers. */
static inline __attribute__((always_inline)) void
tile(int kind, int rows, const void *x, int64_t stride, int64_t depth, int is_first,
     const float *panel, float *sums) {
    const float *floats = x;
    const int32_t *integers = x;
    const int has_signs = kind == SIGNED_INTEGERS;
    const int64_t to_signs = has_signs ? (stride - LANES / 4) / 2 : 0;
    vec sum[MR_MAX * NR_VECTORS] = {{0}}; /* of floats, or */
    ivec total[MR_MAX * NR_VECTORS] = {{0}};
    if (has_signs && is_first)
#pragma GCC unroll 24
        for (int i = 0; i < rows * NR_VECTORS; i++)
            total[i] = broadcast_int(integers[(i / NR_VECTORS + 1) * stride - 1]);
    for (int64_t u = 0; u < depth; u++, panel += NR) {
        vec column[NR_VECTORS];
        for (int c = 0; c < NR_VECTORS; c++) {
            column[c] = load(panel + c * LANES);
            __builtin_prefetch(panel + PREFETCH * NR + c * LANES);
        }
#pragma GCC unroll 24
        for (int i = 0; i < rows * NR_VECTORS; i++) {
            const int64_t at = i / NR_VECTORS * stride + u;
            const vec weight = column[i % NR_VECTORS];
            if (kind == FLOATS) {
                sum[i] += floats[at] * weight;
            } else {
                const ivec signs = broadcast_int(has_signs ? integers[at + to_signs] : 0);
                total[i] = dot4(total[i], broadcast_int(integers[at]), signs, (ivec)weight);
            }
        }
    }
    if (!is_first)
#pragma GCC unroll 24
        for (int i = 0; i < rows * NR_VECTORS; i++) {
            const vec before = load(sums + i / NR_VECTORS * NC + i % NR_VECTORS * LANES);
            sum[i] += before, total[i] += (ivec)before;
        }
#pragma GCC unroll 24
    for (int i = 0; i < rows * NR_VECTORS; i++) {
        const vec result = kind == FLOATS ? sum[i] : (vec)total[i];
        store(sums + i / NR_VECTORS * NC + i % NR_VECTORS * LANES, result);
    }
}

/* A tile of 1 to MR rows. */
static inline __attribute__((always_inline)) void
any_tile(int kind, int64_t rows, const float *x, int64_t stride, int64_t depth, int is_first,
         const float *panel, float *sums) {
    switch (rows) {
    case 1: return tile(kind, 1, x, stride, depth, is_first, panel, sums);
    case 2: return tile(kind, 2, x, stride, depth, is_first, panel, sums);
    case 3: return tile(kind, 3, x, stride, depth, is_first, panel, sums);
    case 4: return tile(kind, 4, x, stride, depth, is_first, panel, sums);
    case 5: return tile(kind, 5, x, stride, depth, is_first, panel, sums);
    default: return tile(kind, MR_MAX, x, stride, depth, is_first, panel, sums);
    }
}

static void float_tile(int64_t rows, const float *x, int64_t stride, int64_t depth, int is_first,
                       const float *panel, float *sums) {
    any_tile(FLOATS, rows, x, stride, depth, is_first, panel, sums);
}

static void int8_tile(int64_t rows, const float *x, int64_t stride, int64_t depth, int is_first,
                      const float *panel, float *sums) {
    any_tile(INTEGERS, rows, x, stride, depth, is_first, panel, sums);
}

static void signed_int8_tile(int64_t rows, const float *x, int64_t stride, int64_t depth,
                             int is_first, const float *panel, float *sums) {
    any_tile(SIGNED_INTEGERS, rows, x, stride, depth, is_first, panel, sums);
}

/* Is any number of these rows below zero, if their signs are stored? Not after a RELU. */
static int any_signs(const int32_t *x, int64_t stride, int64_t rows) {
    int32_t found = 0;
    for (int64_t r = 1; HAS_SIGNS && r <= rows; r++) found |= x[r * stride - 1];
    return found != 0;
}

/* At most MC rows, from `row` on, whose units are x (rows, stride). sums: (rows, NC). */
static void linear_block(const Linear *map, const float *x, int64_t stride, const float *scales,
                         int64_t row, int64_t rows, const Epilogue *epilogue, float *y,
                         float *sums) {
    const int64_t depth = depth_of(map->in_features, map->is_int8), outputs = map->out_features;
    const int has_signs = map->is_int8 && any_signs((const int32_t *)x, stride, rows);
    /* Blocks of NC columns. */
    for (int64_t first = 0; first < outputs; first += NC) {
        const int64_t end = outputs < first + NC ? outputs : first + NC;
        /* Panels of NR columns. */
        for (int64_t c = first; c < end; c += NR) {
            const float *panel = (const float *)map->panels + c * depth;
            /* KC units of the panel. */
            for (int64_t u = 0; u < depth; u += KC) {
                const int64_t units = depth - u < KC ? depth - u : KC;
                /* Tiles of MR rows. */
                for (int64_t r = 0; r < rows; r += MR)
                    (has_signs ? signed_int8_tile : map->is_int8 ? int8_tile : float_tile)(
                        rows - r < MR ? rows - r : MR, x + r * stride + u, stride, units, u == 0,
                        panel + u * NR, sums + r * NC + c - first);
            }
        }
        /* For several panels at once: rows of y are far apart, each in another page of memory. */
        store_tile(map, epilogue, row, rows, scales, first, end, sums, y);
    }
}

void linear_forward(const Linear *map, const float *x, int64_t rows, const Epilogue *epilogue,
                    float *y, void *workspace) {
    const int64_t stride = int8_stride(map->in_features);
    /* Blocks of MC rows. */
    for (int64_t r = 0; r < rows; r += MC, x += MC * (int64_t)map->in_features) {
        const int64_t block = rows - r < MC ? rows - r : MC;
        if (map->is_int8) {
            float *scales = (float *)((char *)workspace + block * stride), *sums = scales + block;
            quantize_rows(map, x, block, workspace, scales);
            linear_block(map, workspace, stride / 4, scales, r, block, epilogue, y, sums);
        } else {
            linear_block(map, x, map->in_features, 0, r, block, epilogue, y, workspace);
        }
    }
}

int64_t s2s_linear(const Linear *map, const float *x, int64_t rows, float *y, void *workspace,
                   int64_t size) {
    const int64_t needed = linear_workspace(rows, map->in_features);
    if (needed <= size) linear_forward(map, x, rows, &NO_EPILOGUE, y, workspace);
    return needed;
}
