/* Attention of queries, one by one, to keys and values in a cache. */
#include "kernels.h"
#include <math.h>

KVIndex alloc_kv_index(Arena *arena, const KVView *view) {
    KVIndex index = {view->rows, view->length, 0, 0};
    index.slots = arena_alloc(arena, view->rows * view->length * 4);
    index.lengths = arena_alloc(arena, view->rows * 4);
    return index;
}

int64_t cache_offset(const KVCache *cache, int64_t row, int64_t rows) {
    row /= rows / cache->rows;
    return (cache->kept ? cache->kept[row] : row) * cache->row_stride;
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

/* The products of a query (dim,) with the keys in some slots; inlined for constant `keys_at_once`:
 * their sums do not wait for each other. */
static inline __attribute__((always_inline)) void
dot_keys(int keys_at_once, const float *query, const float *keys, int64_t stride,
         const int32_t *slots, int64_t dim, float scale, float *scores) {
    vec sum[4] = {{0}};
    int64_t i = 0;
    for (; i + LANES <= dim; i += LANES)
        for (int k = 0; k < keys_at_once; k++)
            sum[k] += load(query + i) * load(keys + slots[k] * stride + i);
    if (i < dim)
        for (int k = 0; k < keys_at_once; k++)
            sum[k] += load_partial(query + i, dim - i) *
                      load_partial(keys + slots[k] * stride + i, dim - i);
    for (int k = 0; k < keys_at_once; k++) scores[k] = scale * reduce_sum(sum[k]);
}

/* Adds to scores (count,) the products of a query with as many vectors (dim,), one after another. */
static void add_products(const float *query, const float *vectors, int64_t count, int64_t dim,
                         float *scores) {
    static const int32_t next[4] = {0, 1, 2, 3};
    float products[4];
    for (int64_t t = 0; t < count; t += 4, vectors += 4 * dim) {
        const int64_t n = count - t < 4 ? count - t : 4;
        if (n == 4) dot_keys(4, query, vectors, dim, next, dim, 1, products);
        for (int64_t i = 0; i < n; i++) {
            if (n < 4) dot_keys(1, query, vectors, dim, next + i, dim, 1, products + i);
            scores[t + i] += products[i];
        }
    }
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
    int64_t t = 0;
    if (a->score_vector)
        for (; t < count; t++)
            scores[t] = additive(a->score_vector + h * D, query, keys + slots[t] * stride, D);
    for (; t + 4 <= count; t += 4)
        dot_keys(4, query, keys, stride, slots + t, D, a->scale, scores + t);
    for (; t < count; t++) dot_keys(1, query, keys, stride, slots + t, D, a->scale, scores + t);
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

/* Some vectors of `weighted_sum`, or one of `dim` numbers; inlined for constant `vectors`. */
static inline __attribute__((always_inline)) void
weighted_vectors(int vectors, const float *weights, int64_t count, const float *values,
                 int64_t stride, const int32_t *slots, int64_t dim, float *out) {
    vec sum[8] = {{0}};
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
        const int whole = (int)(dim / LANES);
        const int vectors = whole >= 8 ? 8 : whole >= 4 ? 4 : whole >= 2 ? 2 : 1;
        switch (vectors) {
        case 8: weighted_vectors(8, weights, count, values, stride, slots, dim, out); break;
        case 4: weighted_vectors(4, weights, count, values, stride, slots, dim, out); break;
        case 2: weighted_vectors(2, weights, count, values, stride, slots, dim, out); break;
        default: weighted_vectors(1, weights, count, values, stride, slots, dim, out);
        }
        dim -= vectors * LANES, values += vectors * LANES, out += vectors * LANES;
    }
}

/* One query of head h: reads the keys and values (slot, slot_stride) in `count` slots. relative: or
 * NULL. */
static void attend_head(const Attention *a, int64_t h, const float *query, const float *keys,
                        const float *values, int64_t stride, const int32_t *slots, int64_t count,
                        const RelativeBias *relative, int64_t position, float *out,
                        float *scores) {
    score_keys(a, h, query, keys, stride, slots, count, scores);
    if (relative) {
        const int64_t first = h * relative->stride + relative->stride / 2 - position, D = a->head_dim;
        for (int64_t t = 0; t < count; t++) scores[t] += relative->bias[first + t];
        if (relative->keys) add_products(query, relative->keys + first * D, count, D, scores);
    }
    softmax(scores, count);
    weighted_sum(scores, count, values, stride, slots, a->head_dim, out);
}

/* Rows that follow each other and read the same keys, or many of the same. */
static int64_t group_rows(int64_t rows, const KVCache *cache, const KVIndex *index) {
    if (index->rows < rows) return rows / index->rows;
    return cache->rows > 1 ? rows / cache->rows : 1;
}

/* The end of the group that begins with a live row. */
static int64_t group_end(const LiveRows *live, int64_t first, int64_t group) {
    int64_t end = first + 1;
    while (end < live->count && live_row(live, end) / group == live_row(live, first) / group) end++;
    return end;
}

void attend(const Attention *a, const float *queries, int64_t queries_stride,
            const LiveRows *live, const KVCache *cache, const KVIndex *index,
            const int64_t *positions, float *out, float *scores) {
    const int64_t H = a->n_heads, D = a->head_dim, heads_per_kv = H / a->n_kv_heads;
    const int64_t rows = live->total, group = group_rows(rows, cache, index);
    const RelativeBias *relative = a->relative_bias; /* read once: another thread may replace it */
    for (int64_t first = 0, end; first < live->count; first = end) {
        end = group_end(live, first, group);
        for (int64_t h = 0; h < H; h++) /* whose keys stay in the first cache for all of a group */
            for (int64_t i = first; i < end; i++) {
                const int64_t r = live_row(live, i), index_row = r / (rows / index->rows);
                const int64_t head =
                    cache_offset(cache, r, rows) + h / heads_per_kv * cache->head_stride;
                attend_head(a, h, queries + i * queries_stride + h * D, cache->keys + head,
                            cache->values + head, cache->slot_stride,
                            index->slots + index_row * index->capacity, index->lengths[index_row],
                            relative, relative ? positions[i] : 0, out + (i * H + h) * D, scores);
            }
    }
}
