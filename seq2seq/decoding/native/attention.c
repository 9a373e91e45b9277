/* Attention of queries, one by one, to keys and values in a memory. */
#include "native.h"
#include "vectors.h"
#include <math.h>

void list_slots(const readable *from, reading *to) {
    for (int64_t line = 0; line < from->lines; line++) {
        const uint8_t *mask = from->mask ? from->mask + line * from->columns : 0;
        const int64_t *given = from->slots ? from->slots + line * from->slots_stride : 0;
        int32_t *slots = to->slots + line * to->columns, length = 0;
        for (int64_t i = 0; i < from->columns; i++)
            if (!mask || mask[i]) slots[length++] = (int32_t)(given ? given[i] : i);
        to->lengths[line] = length;
    }
}

/* Turn the pairs (x_i, x_{i + D/2}) of some heads (heads, D) by the angles of a position. */
void rotate(const attention *a, int64_t heads, int64_t position, float *x) {
    const int64_t half = a->width / 2;
    const float *cosines = a->turns + position * a->width, *sines = cosines + half;
    for (int64_t h = 0; h < heads; h++, x += a->width)
        for (int64_t i = 0; i < half; i++) {
            const float first = x[i], second = x[i + half];
            x[i] = first * cosines[i] - second * sines[i];
            x[i + half] = second * cosines[i] + first * sines[i];
        }
}

static float dot(const float *a, const float *b, int64_t width) {
    vec sum = spread(0);
    for (int64_t i = 0; i < width; i += LANES)
        sum += load_part(a + i, width - i) * load_part(b + i, width - i);
    return sum_of(sum);
}

/* Scores -> weights that sum to 1. */
static void softmax(float *scores, int64_t count) {
    vec most = spread(-INFINITY), sum = spread(0);
    for (int64_t i = count; i % LANES; i++) scores[i] = -INFINITY;
    for (int64_t i = 0; i < count; i += LANES) most = larger(load(scores + i), most);
    const float largest = largest_of(most);
    for (int64_t i = 0; i < count; i += LANES) {
        const vec each = exponential(load(scores + i) - largest);
        store(scores + i, each);
        sum += each;
    }
    const float share = 1 / sum_of(sum);
    for (int64_t i = 0; i < count; i += LANES) store(scores + i, load(scores + i) * share);
}

/* Some vectors of `mean`; inlined for constant `vectors`. */
static inline __attribute__((always_inline)) void
some_of_mean(int vectors, const float *weights, int64_t count, const float *values, int64_t stride,
             const int32_t *slots, int64_t width, float *out) {
    vec sum[4] = {{0}};
    for (int64_t t = 0; t < count; t++)
        for (int i = 0; i < vectors; i++)
            sum[i] += weights[t] * load_part(values + slots[t] * stride + i * LANES,
                                             vectors == 1 ? width : LANES);
    for (int i = 0; i < vectors; i++)
        store_part(out + i * LANES, sum[i], vectors == 1 ? width : LANES);
}

/* out (D) = the mean of values with these weights. */
static void mean(const float *weights, int64_t count, const float *values, int64_t stride,
                 const int32_t *slots, int64_t width, float *out) {
    while (width > 0) {
        const int vectors = width >= 4 * LANES ? 4 : width >= 2 * LANES ? 2 : 1;
        switch (vectors) {
        case 4: some_of_mean(4, weights, count, values, stride, slots, width, out); break;
        case 2: some_of_mean(2, weights, count, values, stride, slots, width, out); break;
        default: some_of_mean(1, weights, count, values, stride, slots, width, out);
        }
        width -= vectors * LANES, values += vectors * LANES, out += vectors * LANES;
    }
}

/* Queries (rows, `stride` numbers apart, of which the first H D are the heads) -> out (rows, H D),
 * zeros where a row reads nothing. `scores` has room for one line and LANES more. */
void attend(const attention *a, const float *queries, int64_t stride, int64_t rows,
            const memory *store, const reading *read, const int64_t *positions,
            int64_t positions_step, float *out, float *scores) {
    const int64_t D = a->width, sharing = a->heads / a->groups;
    const distances *by_distance = a->bias; /* read once: another thread may replace it */
    for (int64_t r = 0; r < rows; r++) {
        const int64_t line = r / (rows / read->lines);
        const int64_t row = r / (rows / store->rows), count = read->lengths[line];
        const int32_t *slots = read->slots + line * read->columns;
        for (int64_t h = 0; h < a->heads; h++) {
            const float *query = queries + r * stride + h * D;
            const int64_t place =
                row * store->row_stride + h / sharing * store->group_stride;
            for (int64_t t = 0; t < count; t++)
                scores[t] = a->scale * dot(query, store->keys + place + slots[t] * store->slot_stride, D);
            if (by_distance) {
                const int64_t middle = h * by_distance->stride + by_distance->stride / 2;
                const float *bias = by_distance->added + middle;
                const int64_t here = positions[r * positions_step];
                for (int64_t t = 0; t < count; t++) scores[t] += bias[t - here];
            }
            softmax(scores, count);
            mean(scores, count, store->values + place, store->slot_stride, slots, D,
                 out + (r * a->heads + h) * D);
        }
    }
}
