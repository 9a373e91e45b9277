/* Attention of queries, one by one, to keys and values in a cache. */
#include "kernels.h"
#include <math.h>

KVIndex alloc_kv_index(Arena *arena, const KVView *view) {
    KVIndex index = {view->rows, view->length, 0, 0};
    index.slots = arena_alloc(arena, view->rows * view->length * 4);
    index.lengths = arena_alloc(arena, view->rows * 4);
    return index;
}

void build_kv_index(const KVView *view, KVIndex *index) {
    for (int64_t row = 0; row < view->rows; row++) {
        const uint8_t *mask = view->mask ? view->mask + row * view->length : 0;
        const int64_t *given = view->slots ? view->slots + row * view->slots_stride : 0;
        int32_t *slots = index->slots + row * index->capacity, length = 0;
        for (int64_t i = 0; i < view->length; i++)
            if (!mask || mask[i]) slots[length++] = (int32_t)(given ? given[i] : i);
        index->lengths[row] = length;
    }
}

/* Pairs are (x_i, x_{i + D/2}). */
void apply_rope(const Attention *a, int64_t heads, int64_t position, float *x) {
    const int64_t half = a->head_dim / 2;
    const float *cosines = a->rope_table + position * a->head_dim, *sines = cosines + half;
    for (int64_t h = 0; h < heads; h++, x += a->head_dim)
        for (int64_t i = 0; i < half; i++) {
            const float first = x[i], second = x[i + half];
            x[i] = first * cosines[i] - second * sines[i];
            x[i + half] = second * cosines[i] + first * sines[i];
        }
}

static float dot(const float *a, const float *b, int64_t dim) {
    vec sum = broadcast(0);
    for (int64_t i = 0; i < dim; i += LANES)
        sum += load_partial(a + i, dim - i) * load_partial(b + i, dim - i);
    return reduce_sum(sum);
}

/* u . tanh(a + b) */
static float additive(const float *u, const float *a, const float *b, int64_t dim) {
    vec sum = broadcast(0);
    for (int64_t i = 0; i < dim; i += LANES) {
        const vec hidden = vector_tanh(load_partial(a + i, dim - i) + load_partial(b + i, dim - i));
        sum += load_partial(u + i, dim - i) * hidden;
    }
    return reduce_sum(sum);
}

/* The scores (count,) of the keys in these slots, for a query of head h. */
static void score_keys(const Attention *a, int64_t h, const float *query, const float *keys,
                       int64_t stride, const int32_t *slots, int64_t count, float *scores) {
    const int64_t D = a->head_dim;
    if (a->score_vector)
        for (int64_t t = 0; t < count; t++)
            scores[t] = additive(a->score_vector + h * D, query, keys + slots[t] * stride, D);
    else
        for (int64_t t = 0; t < count; t++)
            scores[t] = a->scale * dot(query, keys + slots[t] * stride, D);
}

/* Scores -> weights that sum to 1; there is room for whole vectors. */
static void softmax(float *scores, int64_t count) {
    vec most = broadcast(-INFINITY), sum = broadcast(0);
    for (int64_t i = count; i % LANES; i++) scores[i] = -INFINITY;
    for (int64_t i = 0; i < count; i += LANES) most = maximum(load(scores + i), most);
    const float max = reduce_max(most);
    for (int64_t i = 0; i < count; i += LANES) {
        const vec each = vector_exp(load(scores + i) - max);
        store(scores + i, each);
        sum += each;
    }
    const float share = 1 / reduce_sum(sum);
    for (int64_t i = 0; i < count; i += LANES) store(scores + i, load(scores + i) * share);
}

/* Some vectors of `weighted_sum`; inlined for constant `vectors`. */
static inline __attribute__((always_inline)) void
weighted_vectors(int vectors, const float *weights, int64_t count, const float *values,
                 int64_t stride, const int32_t *slots, int64_t dim, float *out) {
    vec sum[4] = {{0}};
    for (int64_t t = 0; t < count; t++)
        for (int i = 0; i < vectors; i++)
            sum[i] += weights[t] * load_partial(values + slots[t] * stride + i * LANES,
                                                vectors == 1 ? dim : LANES);
    for (int i = 0; i < vectors; i++)
        store_partial(out + i * LANES, sum[i], vectors == 1 ? dim : LANES);
}

/* out (dim,) = the sum of the values in these slots, times their weights (count,). */
static void weighted_sum(const float *weights, int64_t count, const float *values, int64_t stride,
                         const int32_t *slots, int64_t dim, float *out) {
    while (dim > 0) {
        const int vectors = dim >= 4 * LANES ? 4 : dim >= 2 * LANES ? 2 : 1;
        switch (vectors) {
        case 4: weighted_vectors(4, weights, count, values, stride, slots, dim, out); break;
        case 2: weighted_vectors(2, weights, count, values, stride, slots, dim, out); break;
        default: weighted_vectors(1, weights, count, values, stride, slots, dim, out);
        }
        dim -= vectors * LANES, values += vectors * LANES, out += vectors * LANES;
    }
}

void attend(const Attention *a, const float *queries, int64_t queries_stride, int64_t rows,
            const KVCache *cache, const KVIndex *index, const int64_t *positions,
            int64_t positions_stride, float *out, float *scores) {
    const int64_t D = a->head_dim, heads_per_kv = a->n_heads / a->n_kv_heads;
    const RelativeBias *relative = a->relative_bias; /* read once: another thread may replace it */
    for (int64_t r = 0; r < rows; r++) {
        const int64_t index_row = r / (rows / index->rows), cache_row = r / (rows / cache->rows);
        const int64_t count = index->lengths[index_row];
        const int32_t *slots = index->slots + index_row * index->capacity;
        for (int64_t h = 0; h < a->n_heads; h++) {
            const float *query = queries + r * queries_stride + h * D;
            const int64_t head =
                cache_row * cache->row_stride + h / heads_per_kv * cache->head_stride;
            const float *keys = cache->keys + head, *values = cache->values + head;
            score_keys(a, h, query, keys, cache->slot_stride, slots, count, scores);
            if (relative) {
                const int64_t middle = h * relative->stride + relative->stride / 2;
                const float *bias = relative->bias + middle;
                const int64_t here = positions[r * positions_stride];
                for (int64_t t = 0; t < count; t++) scores[t] += bias[t - here];
            }
            softmax(scores, count);
            weighted_sum(scores, count, values, cache->slot_stride, slots, D,
                         out + (r * a->n_heads + h) * D);
        }
    }
}
