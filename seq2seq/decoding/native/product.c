/* The product of some rows with a large matrix, in float32 or in 8-bit integers.
 *
 * Both numbers come in units of 4 bytes: a float, or the integers of four inputs. The matrix is cut
 * into panels of COLUMNS outputs. A panel is read from memory once for all rows, BLOCK units at a
 * time; while these are in the cache, tiles of up to TALL rows add them up in registers. An element
 * is the sum of the sums of its blocks, in the order of the inputs: what a row gives does not depend
 * on the others, and the error of its rounding grows with BLOCK + inputs / BLOCK, not with inputs. */
#include "dot4.h"
#include "native.h"
#include <math.h>

/* The sums of a tile and a row of the panel fill the 32 registers of AVX-512, else the 16. */
enum { WIDE = LANES == 16 ? 4 : 2, COLUMNS = WIDE * LANES, TALLEST = 6, TALL = LANES == 16 ? 6 : 5 };
/* Units of a panel, panels of sums, and rows, that the caches hold. */
enum { BLOCK = 256, GROUP = 4, SPAN = GROUP * COLUMNS, ROWS = 240, AHEAD = 24 };

int32_t panel_columns(void) { return COLUMNS; }

static int64_t units_of(int64_t inputs, int is_int8) { return is_int8 ? (inputs + 3) / 4 : inputs; }

/* W (outputs, inputs) in panels [panel][input][column], filled up with zeros. */
void pack_floats(const float *w, int64_t inputs, int64_t outputs, float *packed) {
    for (int64_t first = 0; first < outputs; first += COLUMNS)
        for (int64_t i = 0; i < inputs; i++)
            for (int64_t c = first; c < first + COLUMNS; c++)
                *packed++ = c < outputs ? w[c * inputs + i] : 0;
}

/* The same with four integers for each input unit; `sums` (outputs,) become those of the rows. */
void pack_integers(const int8_t *w, int64_t inputs, int64_t outputs, int8_t *packed,
                   int32_t *sums) {
    for (int64_t first = 0; first < outputs; first += COLUMNS)
        for (int64_t i = 0; i < 4 * units_of(inputs, 1); i += 4)
            for (int64_t c = first; c < first + COLUMNS; c++)
                for (int64_t j = i; j < i + 4; j++)
                    *packed++ = c < outputs && j < inputs ? w[c * inputs + j] : 0;
    for (int64_t c = 0; c < outputs; c++) {
        sums[c] = 0;
        for (int64_t i = 0; i < inputs; i++) sums[c] += w[c * inputs + i];
    }
}

/* Bytes of a row of integers: whole vectors of them. */
static int64_t integer_stride(int64_t inputs) { return (inputs + LANES - 1) / LANES * LANES; }

int64_t product_work(int64_t rows, int64_t inputs) {
    const int64_t chunk = rows < ROWS ? rows : ROWS;
    return chunk * (integer_stride(inputs) + (SPAN + 1) * (int64_t)sizeof(float));
}

/* x (rows, inputs) -> each row rounded to integers of -127 ... 127, and its scale: its largest
 * magnitude / 127. The scale of a row with a NaN or an infinity is NaN. */
static void quantise(const float *x, int64_t rows, int64_t inputs, int8_t *integers,
                     float *scales) {
    for (int64_t r = 0; r < rows; r++, x += inputs, integers += integer_stride(inputs)) {
        vec most = spread(0), broken = spread(0);
        for (int64_t i = 0; i < inputs; i += LANES) {
            const vec v = load_part(x + i, inputs - i);
            most = larger(larger(v, -v), most);
            broken += v * 0.0f;
        }
        scales[r] = largest_of(most) * (1.0f / 127) + 1e-30f + sum_of(broken);
        const float inverse = 1 / scales[r];
        for (int64_t i = 0; i < inputs; i += LANES) {
            /* Adding 1.5 * 2^23 rounds, and leaves the integer in the lowest bits. */
            const vec rounded = load_part(x + i, inputs - i) * inverse + 12582912.0f;
            const narrow bytes = __builtin_convertvector((ivec)rounded ^ SHIFT, narrow);
            memcpy(integers + i, &bytes, sizeof bytes);
        }
    }
}

/* To the sums of a panel, SPAN numbers from row to row, add those of a block of units of x (rows,
 * stride) times those of the panel; with the first block they begin. Inlined for constant `rows` and unrolled, so
 * that the sums stay in registers. Memory is asked for what comes AHEAD units later. */
static inline __attribute__((always_inline)) void
tile_of_floats(int rows, const float *x, int64_t stride, int64_t units, int is_first, const float *panel,
       float *sums) {
    vec sum[TALLEST * WIDE] = {{0}};
    for (int64_t u = 0; u < units; u++, panel += COLUMNS) {
        vec column[WIDE];
        for (int c = 0; c < WIDE; c++) {
            column[c] = load(panel + c * LANES);
            __builtin_prefetch(panel + AHEAD * COLUMNS + c * LANES);
        }
#pragma GCC unroll 24
        for (int i = 0; i < rows * WIDE; i++)
            sum[i] += x[i / WIDE * stride + u] * column[i % WIDE];
    }
    if (!is_first)
#pragma GCC unroll 24
        for (int i = 0; i < rows * WIDE; i++) sum[i] += load(sums + i / WIDE * SPAN + i % WIDE * LANES);
#pragma GCC unroll 24
    for (int i = 0; i < rows * WIDE; i++) store(sums + i / WIDE * SPAN + i % WIDE * LANES, sum[i]);
}

/* The same in integers. */
static inline __attribute__((always_inline)) void
tile_of_integers(int rows, const int32_t *x, int64_t stride, int64_t units, int is_first, const float *panel,
       float *sums) {
    ivec sum[TALLEST * WIDE] = {{0}};
    for (int64_t u = 0; u < units; u++, panel += COLUMNS) {
        ivec column[WIDE];
        for (int c = 0; c < WIDE; c++) {
            column[c] = iload(panel + c * LANES);
            __builtin_prefetch(panel + AHEAD * COLUMNS + c * LANES);
        }
#pragma GCC unroll 24
        for (int i = 0; i < rows * WIDE; i++)
            sum[i] = dot4(sum[i], ispread(x[i / WIDE * stride + u]), column[i % WIDE]);
    }
    if (!is_first)
#pragma GCC unroll 24
        for (int i = 0; i < rows * WIDE; i++) sum[i] += iload(sums + i / WIDE * SPAN + i % WIDE * LANES);
#pragma GCC unroll 24
    for (int i = 0; i < rows * WIDE; i++) store(sums + i / WIDE * SPAN + i % WIDE * LANES, (vec)sum[i]);
}

static inline __attribute__((always_inline)) void
tile(int is_int8, int rows, const void *x, int64_t stride, int64_t units, int is_first,
     const float *panel, float *sums) {
    if (is_int8) tile_of_integers(rows, x, stride, units, is_first, panel, sums);
    else tile_of_floats(rows, x, stride, units, is_first, panel, sums);
}

/* A tile of 1 to TALL rows. */
static inline __attribute__((always_inline)) void
any_tile(int is_int8, int64_t rows, const float *x, int64_t stride, int64_t units, int is_first,
         const float *panel, float *sums) {
    switch (rows) {
    case 1: return tile(is_int8, 1, x, stride, units, is_first, panel, sums);
    case 2: return tile(is_int8, 2, x, stride, units, is_first, panel, sums);
    case 3: return tile(is_int8, 3, x, stride, units, is_first, panel, sums);
    case 4: return tile(is_int8, 4, x, stride, units, is_first, panel, sums);
    case 5: return tile(is_int8, 5, x, stride, units, is_first, panel, sums);
    default: return tile(is_int8, TALLEST, x, stride, units, is_first, panel, sums);
    }
}

static void float_tile(int64_t rows, const float *x, int64_t stride, int64_t units, int is_first,
                       const float *panel, float *sums) {
    any_tile(0, rows, x, stride, units, is_first, panel, sums);
}

static void int8_tile(int64_t rows, const float *x, int64_t stride, int64_t units, int is_first,
                      const float *panel, float *sums) {
    any_tile(1, rows, x, stride, units, is_first, panel, sums);
}

static vec activated(int32_t kind, vec x) {
    switch (kind) {
    case RELU: return choose(x < spread(0), spread(0), x);
    case SILU: return x * sigmoid(x);
    case GELU: {
        /* x times the normal distribution function: Abramowitz and Stegun 1964, 7.1.26, whose
         * error is at most 1.5e-7. */
        const vec z = larger(x, -x) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
        vec series = 1.061405429f * t - 1.453152027f;
        series = series * t + 1.421413741f;
        series = series * t - 0.284496736f;
        series = (series * t + 0.254829592f) * t;
        const vec half_tail = 0.5f * series * exponential(-z * z);
        return x * choose(x < spread(0), half_tail, 1.0f - half_tail);
    }
    default: return x;
    }
}

/* The results of n columns of a row from column c on, from their sums. Inlined for constant n. */
static inline __attribute__((always_inline)) vec
result(const linear *w, const after *then, int64_t row, int64_t c, int64_t n, float scale, vec sum) {
    const int64_t at = row * w->outputs + c;
    if (w->is_int8) {
        const ivec shifts = (ivec)load_part((const float *)w->sums + c, n) * SHIFT;
        sum = __builtin_convertvector((ivec)sum - shifts, vec);
        sum = sum * load_part(w->scales + c, n) * scale;
    }
    if (w->bias) sum += load_part(w->bias + c, n);
    sum = activated(then->activation, sum);
    if (then->gate) sum *= load_part(then->gate + at, n);
    if (then->added) sum += load_part(then->added + at, n);
    return sum;
}

/* The results of a row in columns `first` to `end`, from their sums, to y. */
static void finish(const linear *w, const after *then, int64_t row, int64_t first, int64_t end,
                   float scale, const float *sums, float *y) {
    int64_t c = first;
    for (; c + LANES <= end; c += LANES, sums += LANES, y += LANES)
        store(y, result(w, then, row, c, LANES, scale, load(sums)));
    if (c < end) store_part(y, result(w, then, row, c, end - c, scale, load(sums)), end - c);
}

/* Put a value where it belongs in a list, best first; the last is dropped. */
static void insert(float value, int64_t id, int64_t count, float *values, int64_t *ids) {
    int64_t place = count - 1;
    for (; place > 0 && value > values[place - 1]; place--)
        values[place] = values[place - 1], ids[place] = ids[place - 1];
    values[place] = value, ids[place] = id;
}

/* Look at the results y of a row in columns `first` to `end`; y has room for whole vectors. */
static void look(const best *found, int64_t row, int64_t first, int64_t end, float *y) {
    const int64_t count = end - first, C = found->count;
    float *values = found->values + row * C;
    int64_t *ids = found->ids + row * C;
    if (first == 0) {
        found->largest[row] = -INFINITY, found->sums[row] = 0;
        for (int64_t i = 0; i < C; i++) values[i] = -INFINITY, ids[i] = i;
    }
    for (int64_t c = count; c % LANES; c++) y[c] = -INFINITY;
    vec most = spread(-INFINITY), sum = spread(0);
    for (int64_t c = 0; c < count; c += LANES) most = larger(load(y + c), most);
    const float before = found->largest[row], here = largest_of(most);
    /* The sum of exponentials is relative to the largest value so far. */
    const float now = here > before ? here : before, zero = now > -INFINITY ? now : 0;
    for (int64_t c = 0; c < count; c += LANES) sum += exponential(load(y + c) - zero);
    if (now > before) found->sums[row] *= before > -INFINITY ? expf(before - now) : 0;
    found->sums[row] += sum_of(sum);
    found->largest[row] = now;

    if (here <= values[C - 1]) return;
    for (int64_t i = 0; i < found->nevers; i++)
        if (found->never[i] >= first && found->never[i] < end) y[found->never[i] - first] = -INFINITY;
    if (found->unending && found->unending[row] && found->eos >= first && found->eos < end)
        y[found->eos - first] = -INFINITY;
    for (int64_t c = 0; c < count; c += LANES) {
        if (!any(load(y + c) > spread(values[C - 1]))) continue;
        for (int64_t i = c; i < c + LANES; i++)
            if (y[i] > values[C - 1]) insert(y[i], first + i, C, values, ids);
    }
}

/* The sums (rows, SPAN) of columns `first` to `end` are complete: what follows. Here, for several
 * panels, because the rows of y are far apart, each in another page of memory. */
static void conclude(const linear *w, const after *then, int64_t row, int64_t rows,
                     const float *scales, int64_t first, int64_t end, const float *sums,
                     float *y) {
    for (int64_t r = 0; r < rows; r++, sums += SPAN) {
        const float scale = scales ? scales[r] : 1;
        if (then->best) {
            float block[SPAN];
            finish(w, then, row + r, first, end, scale, sums, block);
            look(then->best, row + r, first, end, block);
        } else {
            finish(w, then, row + r, first, end, scale, sums, y + (row + r) * w->outputs + first);
        }
    }
}

/* `rows` <= ROWS rows from `row` on, whose units are x. */
static void product_of_chunk(const linear *w, const float *x, int64_t stride, const float *scales,
                             int64_t row, int64_t rows, const after *then, float *y, float *sums) {
    const int64_t units = units_of(w->inputs, w->is_int8);
    for (int64_t first = 0; first < w->outputs; first += SPAN) {
        const int64_t end = w->outputs < first + SPAN ? w->outputs : first + SPAN;
        for (int64_t c = first; c < end; c += COLUMNS) {
            const float *panel = (const float *)w->packed + c * units;
            for (int64_t u = 0; u < units; u += BLOCK) {
                const int64_t block = units - u < BLOCK ? units - u : BLOCK;
                for (int64_t r = 0; r < rows; r += TALL)
                    (w->is_int8 ? int8_tile : float_tile)(
                        rows - r < TALL ? rows - r : TALL, x + r * stride + u, stride, block, u == 0,
                        panel + u * COLUMNS, sums + r * SPAN + c - first);
            }
        }
        conclude(w, then, row, rows, scales, first, end, sums, y);
    }
}

/* y (rows, outputs) = what `then` makes of x (rows, inputs) W^T. `work` has `product_work` bytes. */
void product(const linear *w, const float *x, int64_t rows, const after *then, float *y,
             void *work) {
    const int64_t stride = integer_stride(w->inputs);
    for (int64_t r = 0; r < rows; r += ROWS, x += ROWS * (int64_t)w->inputs) {
        const int64_t chunk = rows - r < ROWS ? rows - r : ROWS;
        if (w->is_int8) {
            float *scales = (float *)((char *)work + chunk * stride);
            quantise(x, chunk, w->inputs, work, scales);
            product_of_chunk(w, work, stride / 4, scales, r, chunk, then, y, scales + chunk);
        } else {
            product_of_chunk(w, x, w->inputs, 0, r, chunk, then, y, work);
        }
    }
}
