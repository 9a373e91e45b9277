/* The best outputs of a row, and the sum of exponentials, while results come block by block. */
#include "kernels.h"
#include <math.h>

/* Puts a value where it belongs in a list, best first; the last is dropped. */
static void insert(float value, int64_t id, int64_t k, float *values, int64_t *ids) {
    int64_t place = k - 1;
    for (; place > 0 && value > values[place - 1]; place--)
        values[place] = values[place - 1], ids[place] = ids[place - 1];
    values[place] = value, ids[place] = id;
}

/* Adds a block to the largest result of a row and to the sum of e^(result - largest). Returns: the
 * largest result of the block. */
static float update_log_sum(const float *results, int64_t count, float *max, float *sum_exp) {
    vec most = broadcast(-INFINITY), sum = broadcast(0);
    for (int64_t c = 0; c < count; c += LANES) most = maximum(load(results + c), most);
    const float before = *max, here = reduce_max(most);
    const float now = here > before ? here : before, zero = now > -INFINITY ? now : 0;
    for (int64_t c = 0; c < count; c += LANES) sum += vector_exp(load(results + c) - zero);
    if (now > before) *sum_exp *= before > -INFINITY ? expf(before - now) : 0;
    *sum_exp += reduce_sum(sum);
    *max = now;
    return here;
}

/* The ids of a row's own list; NULL: all outputs. */
static const int64_t *own_ids(const TopK *topk, int64_t row) {
    const Shortlist *lists = topk->shortlist;
    return lists ? lists->ids + lists->row_lists[row] * lists->width : 0;
}

/* The place of a token among the results of a row, or -1. */
static int64_t find_token(const int64_t *ids, int64_t first, int64_t end, int64_t token) {
    if (!ids) return token >= first && token < end ? token - first : -1;
    for (int64_t c = first; c < end && ids[c] <= token; c++)
        if (ids[c] == token) return c - first;
    return -1;
}

/* The place of a row among those with constraints, or -1. */
static int64_t find_constraint(const TopK *topk, int64_t row) {
    return topk->constraints ? topk->constraints->places[row] : -1;
}

/* What this row may not choose cannot be found. */
static void ban(const TopK *topk, int64_t row, int64_t first, int64_t end, float *results) {
    const int64_t *ids = own_ids(topk, row), at = find_constraint(topk, row);
    const int has_no_end = topk->no_eos && topk->no_eos[row];
    for (int64_t i = 0; i < topk->banned_count + has_no_end; i++) {
        const int64_t token = i < topk->banned_count ? topk->banned[i] : topk->eos;
        const int64_t place = find_token(ids, first, end, token);
        if (place >= 0) results[place] = -INFINITY;
    }
    if (at < 0) return;
    const uint8_t *banned = topk->constraints->banned + at * topk->constraints->outputs;
    for (int64_t c = first; c < end; c++)
        if (banned[ids ? ids[c] : c]) results[c - first] = -INFINITY;
}

/* Notes the results of what is required of a row. results: NULL = only looks. Returns: is any of it
 * here? */
static int note_required(const TopK *topk, int64_t row, int64_t first, int64_t end,
                         const float *results) {
    const Constraints *constraints = topk->constraints;
    const int64_t at = find_constraint(topk, row), width = at < 0 ? 0 : constraints->width;
    int is_here = 0;
    for (int64_t i = at * width; i < (at + 1) * width; i++) {
        const int64_t token = constraints->required[i];
        const int64_t place = token < 0 ? -1 : find_token(own_ids(topk, row), first, end, token);
        if (place >= 0 && results) constraints->log_probs[i] = results[place];
        is_here |= place >= 0;
    }
    return is_here;
}

void update_topk(const Epilogue *epilogue, int64_t row, int64_t first, int64_t end,
                 float *results) {
    const TopK *topk = epilogue->topk;
    const int64_t count = end - first, k = topk->k;
    float *values = topk->log_probs + row * k;
    int64_t *ids = topk->ids + row * k;
    const int64_t *own = own_ids(topk, row), at = find_constraint(topk, row);
    if (first == 0) {
        epilogue->max[row] = -INFINITY, epilogue->sum_exp[row] = 0;
        for (int64_t i = 0; i < k; i++) values[i] = -INFINITY, ids[i] = i;
        for (int64_t i = 0; at >= 0 && i < topk->constraints->width; i++)
            topk->constraints->log_probs[at * topk->constraints->width + i] = -INFINITY;
    }
    for (int64_t c = count; c % LANES; c++) results[c] = -INFINITY;
    const float most =
        update_log_sum(results, count, epilogue->max + row, epilogue->sum_exp + row);
    const int64_t forced = topk->forced ? topk->forced[row] : -1;
    if (forced < -1) return; /* given: see finish_topk */
    if (forced >= 0) { /* the others stay impossible */
        const int64_t place = find_token(own, first, end, forced);
        if (place >= 0) values[0] = results[place], ids[0] = forced;
        return;
    }
    if (most <= values[k - 1] && !note_required(topk, row, first, end, 0)) return;
    ban(topk, row, first, end, results);
    note_required(topk, row, first, end, results);
    for (int64_t c = 0; c < count; c += LANES) {
        if (!any_true(load(results + c) > broadcast(values[k - 1]))) continue;
        for (int64_t i = c; i < c + LANES; i++)
            if (results[i] > values[k - 1])
                insert(results[i], own ? own[first + i] : first + i, k, values, ids);
    }
}

/* Of what is required of a row, only what is not among its best is left. */
static void finish_required(const TopK *topk, int64_t row, float log_sum) {
    const Constraints *constraints = topk->constraints;
    const int64_t k = topk->k, start = find_constraint(topk, row) * constraints->width;
    for (int64_t i = start; i < start + constraints->width; i++) {
        constraints->log_probs[i] -= log_sum;
        for (int64_t j = row * k; j < (row + 1) * k; j++)
            if (topk->ids[j] == constraints->required[i]) constraints->log_probs[i] = -INFINITY;
        if (constraints->required[i] < 0) constraints->log_probs[i] = -INFINITY;
    }
}

void finish_topk(const Epilogue *epilogue, int64_t row) {
    const TopK *topk = epilogue->topk;
    const float log_sum = epilogue->max[row] + logf(epilogue->sum_exp[row]);
    for (int64_t i = 0; i < topk->k; i++) topk->log_probs[row * topk->k + i] -= log_sum;
    if (topk->forced && topk->forced[row] < -1) /* a given token has probability 1 */
        topk->log_probs[row * topk->k] = 0, topk->ids[row * topk->k] = -2 - topk->forced[row];
    if (find_constraint(topk, row) >= 0) finish_required(topk, row, log_sum);
}
