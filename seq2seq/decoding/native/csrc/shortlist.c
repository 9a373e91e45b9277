/* The best outputs of each row among those of its own list: one product of two vectors for each.
 * Nothing is shared with other rows, so no result depends on them, and a batch of many sentences
 * costs no more for each than one. */
#include "dot4.h"
#include "kernels.h"

enum { TOGETHER = 4 }; /* outputs that are multiplied together */

/* The sums of x times several rows of W, `units` each; fetches those that come next. Inlined. */
static inline __attribute__((always_inline)) void
dot(int is_int8, const float *x, int64_t to_signs, const float *const *rows,
    const float *const *next, int64_t units, vec *sums) {
    vec sum[TOGETHER] = {{0}};
    for (int64_t u = 0; u < units; u += LANES) {
        const vec input = load_partial(x + u, units - u);
        const vec sign = to_signs ? load_partial(x + to_signs + u, units - u) : broadcast(0);
        for (int i = 0; i < TOGETHER; i++) {
            const vec weight = load_partial(rows[i] + u, units - u);
            __builtin_prefetch(next[i] + u);
            if (is_int8) sum[i] = (vec)dot4((ivec)sum[i], (ivec)input, (ivec)sign, (ivec)weight);
            else sum[i] += input * weight;
        }
    }
    for (int i = 0; i < TOGETHER; i++) sums[i] = sum[i];
}

/* The results of a row for `count` outputs. row_scale: in int8. */
static void list_results(const Linear *map, const float *weight, const float *x, float row_scale,
                         const int64_t *ids, int64_t count, float *results) {
    const int64_t units = linear_depth(map), stride = int8_stride(map->in_features) / 4;
    const int64_t to_signs = HAS_SIGNS ? (stride - LANES / 4) / 2 : 0;
    int32_t row_shift = 0;
    if (HAS_SIGNS && map->is_int8) memcpy(&row_shift, x + stride - 1, sizeof row_shift);
    const float *rows[2][TOGETHER];
    for (int i = 0; i < TOGETHER; i++) rows[0][i] = weight + ids[i < count ? i : 0] * units;
    for (int64_t c = 0; c < count; c += TOGETHER) {
        const int now = c / TOGETHER % 2;
        vec sums[TOGETHER];
        for (int64_t i = 0, n = c + TOGETHER; i < TOGETHER; i++)
            rows[!now][i] = weight + ids[n + i < count ? n + i : 0] * units;
        if (map->is_int8) dot(1, x, to_signs, rows[now], rows[!now], units, sums);
        else dot(0, x, 0, rows[now], rows[!now], units, sums);
        for (int64_t i = 0; i < TOGETHER && c + i < count; i++) {
            const int64_t id = ids[c + i];
            float result;
            if (map->is_int8) {
                const int32_t shift = row_shift - map->weight_sums[id] * ZERO_POINT;
                const int32_t sum = reduce_sum_int((ivec)sums[i]) + shift;
                result = (float)sum * map->scales[id] * row_scale;
            } else {
                result = reduce_sum(sums[i]);
            }
            results[c + i] = result + (map->bias ? map->bias[id] : 0);
        }
    }
}

int64_t check_lists(const Linear *head, const Shortlist *lists, int64_t rows) {
    for (int64_t r = 0; lists && r < rows; r++) {
        const int64_t list = lists->row_lists[r];
        if (list < 0 || list >= lists->lists || lists->lengths[list] < 1 ||
            lists->lengths[list] > lists->width)
            return -BAD_LIST;
        if (r && list == lists->row_lists[r - 1]) continue;
        for (int64_t i = 0; i < lists->lengths[list]; i++) {
            const int64_t id = lists->ids[list * lists->width + i];
            if (id < 0 || id >= head->out_features) return -BAD_LIST;
        }
    }
    return NO_ERROR;
}

void shortlist_forward(const Linear *head, const float *x, int64_t rows, const Epilogue *epilogue,
                       void *workspace) {
    const Shortlist *lists = epilogue->topk->shortlist;
    for (int64_t r = 0; r < rows; r++, x += head->in_features) {
        const int64_t list = lists->row_lists[r], count = lists->lengths[list];
        const int64_t *ids = lists->ids + list * lists->width;
        float row_scale = 1;
        if (head->is_int8) quantize_rows(head, x, 1, workspace, &row_scale);
        for (int64_t first = 0; first < count; first += NC) {
            const int64_t end = count < first + NC ? count : first + NC;
            float results[NC];
            list_results(head, lists->weight, head->is_int8 ? workspace : x, row_scale,
                         ids + first, end - first, results);
            update_topk(epilogue, r, first, end, results);
        }
    }
}
