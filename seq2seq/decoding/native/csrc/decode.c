/* A step of a decoder of either kind; several, each with that of a search. */
#include "kernels.h"

static LiveStep alloc_live(Arena *arena, const DecodeStep *step) {
    int64_t *rows = arena_alloc(arena, step->rows * 8);
    LiveStep live = {.live = {0, step->rows, rows}};
    live.tokens = arena_alloc(arena, step->rows * 8);
    live.positions = arena_alloc(arena, step->rows * 8);
    live.self_index = alloc_kv_index(arena, &step->self_view);
    live.cross_index = alloc_kv_index(arena, &step->cross_view);
    return live;
}

/* The rows whose tokens are not `pad`, next to each other, and what they read. */
static void gather_live(const DecodeStep *step, LiveStep *live) {
    int64_t *rows = (int64_t *)live->live.rows;
    for (int64_t r = 0; r < step->rows; r++)
        if (step->tokens[r] != step->pad) {
            const int64_t i = live->live.count++;
            rows[i] = r, live->tokens[i] = step->tokens[r];
            live->positions[i] = step->positions[r * step->positions_stride];
        }
    build_kv_index(&step->self_view, &live->self_index);
    build_kv_index(&step->cross_view, &live->cross_index);
}

/* x (live, dim) -> (rows, dim), in place, with zeros in the others. */
static void spread_rows(const LiveRows *live, int64_t dim, float *x) {
    int64_t i = live->count - 1;
    for (int64_t r = live->total - 1; r > i; r--)
        if (i >= 0 && live->rows[i] == r)
            memcpy(x + r * dim, x + i-- * dim, (size_t)dim * sizeof *x);
        else
            memset(x + r * dim, 0, (size_t)dim * sizeof *x);
}

int64_t s2s_decode(const Decoder *d, const DecodeStep *step, float *hidden, void *workspace,
                   int64_t size) {
    const int64_t *positions = d->stack ? step->positions : 0;
    const Embedding *e = d->stack ? &d->stack->embedding : &d->cells->embedding;
    const int64_t error = check_ids(e, step->rows, step->tokens, positions, step->positions_stride);
    if (error) return error;

    Arena arena = {workspace, 0};
    LiveStep live = alloc_live(&arena, step);
    if (arena.size <= size) gather_live(step, &live);
    const int64_t needed = d->stack ? transformer_step(d->stack, step, &live, hidden, arena, size)
                                    : recurrent_step(d->cells, step, &live, hidden, arena, size);
    const int64_t dim = d->stack ? d->stack->dim : d->cells->dim;
    if (needed <= size) spread_rows(&live.live, dim, hidden);
    return needed;
}

/* The most numbers of states that rows remember. */
static int64_t states_size(const DecodeStep *step) {
    int64_t most = 0;
    for (int64_t i = 0; i < step->states_count; i++) most = max_of(most, step->states[i].width);
    return step->rows * most * (int64_t)sizeof(float);
}

/* Each row goes on with the states of its parent. scratch: states_size. */
static void fork_states(const DecodeStep *step, const int64_t *parents, float *scratch) {
    for (int64_t i = 0; i < step->states_count; i++) {
        const int64_t width = step->states[i].width;
        float *values = step->states[i].values;
        memcpy(scratch, values, (size_t)(step->rows * width) * sizeof *values);
        for (int64_t r = 0; r < step->rows; r++)
            memcpy(values + r * width, scratch + parents[r] * width,
                   (size_t)width * sizeof *values);
    }
}

/* The next step reads what the search has chosen. */
static void move_on(DecodeStep *step, Search *search, const StepOutput *out) {
    step->tokens = out->next_tokens;
    step->self_view.length++, search->entries_length++;
    for (int64_t r = 0; r < (step->positions_stride ? step->rows : 1); r++) step->positions[r]++;
}

static int64_t count_done(const Search *search, const StepOutput *out) {
    int64_t count = 0;
    for (int64_t b = 0; b < search->sentences; b++) count += out->done[b];
    return count;
}

int64_t s2s_decode_steps(const Decoder *decoder, DecodeStep *step, const Linear *head,
                         const TopK *topk, Search *search, const StepOutput *out, int64_t most,
                         float *hidden, void *workspace, int64_t size) {
    /* What a step needs grows with its length: all have room, or nothing is done. */
    DecodeStep last = *step;
    last.self_view.length += most - 1;
    const int64_t decoding = s2s_decode(decoder, &last, 0, 0, 0);
    const int64_t error = decoding < 0 ? decoding : check_search(head, topk, search);
    if (error) return error;
    const int64_t searching = advance_search(head, 0, topk, search, out, 0, 0);
    const int64_t needed = max_of(max_of(decoding, searching), states_size(step));
    if (needed > size) return needed;

    const int64_t done = count_done(search, out);
    for (out->steps[0] = 0;;) {
        const int64_t decoded = s2s_decode(decoder, step, hidden, workspace, size);
        if (decoded < 0) return decoded;
        advance_search(head, hidden, topk, search, out, workspace, size);
        if (out->is_moved[0]) fork_states(step, out->parents, workspace);
        out->steps[0]++;
        if (out->steps[0] == most || out->finished[0] || count_done(search, out) > done) break;
        move_on(step, search, out);
    }
    return needed;
}
