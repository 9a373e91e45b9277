/* What follows a linear map, while its sums are in the cache: scales of integers, bias, activation,
 * gate, residual; or the best outputs of each row. */
#include "dot4.h"
#include "kernels.h"
#include <math.h>

static vec activate(int32_t kind, vec x) {
    switch (kind) {
    case RELU: return maximum(broadcast(0), x);
    case SILU: return x * sigmoid(x);
    case GELU: {
        /* x times the normal distribution function: Abramowitz and Stegun 1964, 7.1.26, whose
         * error is at most 1.5e-7. */
        const vec z = maximum(x, -x) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
        vec series = 1.061405429f * t - 1.453152027f;
        series = series * t + 1.421413741f;
        series = series * t - 0.284496736f;
        series = (series * t + 0.254829592f) * t;
        const vec half_tail = 0.5f * series * vector_exp(-z * z);
        return x * blend(x < broadcast(0), half_tail, 1.0f - half_tail);
    }
    case TANH: return vector_tanh(x);
    default: return x;
    }
}

/* The results of n columns of a row from column c on, from their sums. Inlined for constant n. */
static inline __attribute__((always_inline)) vec
finish_vector(const Linear *map, const Epilogue *epilogue, int64_t row, int64_t c, int64_t n,
              float row_scale, vec sum) {
    const int64_t at = row * map->out_features + c;
    if (map->is_int8) {
        const ivec shift = (ivec)load_partial((const float *)map->weight_sums + c, n) * ZERO_POINT;
        sum = __builtin_convertvector((ivec)sum - shift, vec);
        sum = sum * load_partial(map->scales + c, n) * row_scale;
    }
    if (map->bias) sum += load_partial(map->bias + c, n);
    if (epilogue->activation) sum = activate(epilogue->activation, sum);
    if (epilogue->gate) sum *= load_partial(epilogue->gate + at, n);
    if (epilogue->residual) sum += load_partial(epilogue->residual + at, n);
    return sum;
}

/* The results of a row in columns `first` to `end`, from their sums, to y. What is known of the map
 * is copied: nothing that is stored here can change it. */
static inline __attribute__((always_inline)) void
finish_row(Linear map, Epilogue epilogue, int64_t row, int64_t first, int64_t end, float row_scale,
           const float *sums, float *y) {
    int64_t c = first;
    for (; c + LANES <= end; c += LANES, sums += LANES, y += LANES)
        store(y, finish_vector(&map, &epilogue, row, c, LANES, row_scale, load(sums)));
    if (c < end) {
        const vec last = finish_vector(&map, &epilogue, row, c, end - c, row_scale, load(sums));
        store_partial(y, last, end - c);
    }
}

void store_tile(const Linear *map, const Epilogue *epilogue, int64_t row, int64_t rows,
                const float *row_scales, int64_t first, int64_t end, const float *sums,
                float *y) {
    for (int64_t r = row; r < row + rows; r++, sums += NC) {
        const float row_scale = row_scales ? row_scales[r - row] : 1;
        if (epilogue->topk) {
            float results[NC];
            finish_row(*map, *epilogue, r, first, end, row_scale, sums, results);
            update_topk(epilogue, r, first, end, results);
        } else {
            float *to = y + r * map->out_features + first;
            finish_row(*map, *epilogue, r, first, end, row_scale, sums, to);
        }
    }
}
