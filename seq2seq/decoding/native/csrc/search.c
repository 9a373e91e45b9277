/* What follows the hidden states of a step in greedy search and in a beam search: the best outputs of
 * each row, and what the search makes of them, see choose.c. */
#include "kernels.h"

/* What the head needs of the rows whose best outputs are of use, next to each other. */
typedef struct {
    int64_t count;
    float *hidden;          /* (rows, in_features) */
    int64_t *forced;        /* (rows,): one that must take a token of its prefix takes this */
    uint8_t *no_eos;        /* (rows,): one that is too short does not end */
    int64_t *row_lists;     /* (rows,) */
    int64_t *constraints;   /* (rows,), their places among those with constraints */
} HeadRows;

static void gather_rows(const Search *search, const uint8_t *done, const float *hidden,
                        int64_t dim, const TopK *topk, HeadRows *rows) {
    for (int64_t r = 0; r < search->sentences * search->beams; r++) {
        const int64_t b = r / search->beams, n = search->length[b], width = search->prefix_width;
        const int64_t at = is_live(search, done, r) ? rows->count++ : -1;
        if (at < 0) continue;
        memcpy(rows->hidden + at * dim, hidden + r * dim, (size_t)dim * sizeof *hidden);
        rows->forced[at] = search->prefixes[b * width + (n < width ? n : width - 1)];
        rows->no_eos[at] = n + 1 < search->min_lengths[b];
        if (topk->shortlist) rows->row_lists[at] = topk->shortlist->row_lists[r];
        if (topk->constraints) rows->constraints[at] = topk->constraints->places[r];
    }
}

int64_t check_search(const Linear *head, const TopK *topk, const Search *search) {
    if (search->beams > MAX_BEAMS) return -BAD_BEAMS;
    return check_topk(head, topk, search->sentences * search->beams);
}

static int64_t find_candidates(const Linear *head, const float *hidden, const TopK *given,
                               const Search *search, const StepOutput *out, void *workspace,
                               int64_t size) {
    const int64_t rows = search->sentences * search->beams, dim = head->in_features;
    Arena arena = {workspace, 0};
    HeadRows live = {.hidden = alloc_floats(&arena, rows, dim)};
    live.forced = arena_alloc(&arena, rows * 8);
    live.no_eos = arena_alloc(&arena, rows);
    live.row_lists = arena_alloc(&arena, rows * 8);
    live.constraints = arena_alloc(&arena, rows * 8);
    void *rest = arena_alloc(&arena, topk_workspace(head, rows));
    if (arena.size > size) return arena.size;

    gather_rows(search, out->done, hidden, dim, given, &live);
    Shortlist lists;
    Constraints constraints;
    TopK topk = *given;
    topk.forced = live.forced, topk.no_eos = live.no_eos;
    if (topk.shortlist) {
        lists = *topk.shortlist, lists.row_lists = live.row_lists;
        topk.shortlist = &lists;
    }
    if (topk.constraints) {
        constraints = *topk.constraints, constraints.places = live.constraints;
        topk.constraints = &constraints;
    }
    find_topk(head, live.hidden, live.count, &topk, rest);
    return arena.size;
}

int64_t advance_search(const Linear *head, const float *hidden, const TopK *topk,
                       const Search *search, const StepOutput *out, void *workspace, int64_t size) {
    const int64_t finding = find_candidates(head, 0, topk, search, out, 0, 0);
    const int64_t needed = max_of(finding, s2s_choose(topk, search, out, 0, 0));
    if (needed > size) return needed;
    find_candidates(head, hidden, topk, search, out, workspace, size);
    s2s_choose(topk, search, out, workspace, size);
    return needed;
}

int64_t s2s_find_candidates(const Linear *head, const float *hidden, const TopK *topk,
                            const Search *search, const StepOutput *out, void *workspace,
                            int64_t size) {
    const int64_t error = check_search(head, topk, search);
    return error ? error : find_candidates(head, hidden, topk, search, out, workspace, size);
}
