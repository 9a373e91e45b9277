/* A step of a decoder of recurrent cells, after which each row has a new state.
 *
 *     Bahdanau:  c = attend(s),  s = cells([y; c], s),  hidden = tanh(W [s; c; y])
 *     Luong:     s = cells([y; t], s),  c = attend(s),  hidden = t = tanh(W [c; s])
 *
 * y is the embedding of the token, s the last layer's state where it stands alone. */
#include "kernels.h"

/* The buffers of a batch of rows. */
typedef struct {
    float *context;      /* (row, dim), what attention read */
    float *joined;       /* (row, up to 3 of dim), what enters the first cell, or the readout */
    float *state, *cell; /* (row, dim), of a layer */
    float *fed;          /* (row, dim), the hidden states before */
    float *input_gates, *hidden_gates; /* (row, gate, dim) */
    float *projected, *query; /* (row, dim): of a query or a context; as the score compares it */
    float *scores;            /* (slot,), of one query and head, and a vector more */
    void *workspace;          /* of linear maps */
} Buffers;

static Buffers alloc_buffers(Arena *arena, const RecurrentDecoder *d, const DecodeStep *step) {
    const int64_t rows = step->rows, dim = d->dim, gates = d->cells->input_gates.out_features;
    Buffers b;
    b.context = alloc_floats(arena, rows, dim);
    b.joined = alloc_floats(arena, rows, 3 * dim);
    b.state = alloc_floats(arena, rows, dim);
    b.cell = alloc_floats(arena, rows, dim);
    b.fed = alloc_floats(arena, rows, dim);
    b.input_gates = alloc_floats(arena, rows, gates);
    b.hidden_gates = alloc_floats(arena, rows, gates);
    b.projected = alloc_floats(arena, rows, dim);
    b.query = alloc_floats(arena, rows, dim);
    b.scores = alloc_floats(arena, 1, step->cross_view.length + LANES);
    b.workspace = arena_alloc(arena, linear_workspace(rows, 3 * dim));
    return b;
}

/* Part i of the states of live rows, (live, dim). */
static void load_states(const LiveRows *live, const RowState *states, int64_t i, int64_t dim,
                        float *x) {
    for (int64_t r = 0; r < live->count; r++, x += dim)
        memcpy(x, states->values + live_row(live, r) * states->width + i * dim,
               (size_t)dim * sizeof *x);
}

static void store_states(const LiveRows *live, const RowState *states, int64_t i, int64_t dim,
                         const float *x) {
    for (int64_t r = 0; r < live->count; r++, x += dim)
        memcpy(states->values + live_row(live, r) * states->width + i * dim, x,
               (size_t)dim * sizeof *x);
}

/* `count` vectors of each row side by side. */
static void join(int64_t rows, int64_t dim, const float *const *parts, int64_t count, float *y) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i++, y += dim)
            memcpy(y, parts[i] + r * dim, (size_t)dim * sizeof *y);
}

/* x (rows, in_features) itself, or its linear map where there is one, in y. */
static const float *project(const Linear *map, const float *x, int64_t rows, float *y,
                            void *workspace) {
    if (!map->panels) return x;
    linear_forward(map, x, rows, &NO_EPILOGUE, y, workspace);
    return y;
}

/* The contexts of states (rows, dim). */
static const float *attend_source(const RecurrentDecoder *d, const DecodeStep *step,
                                  const LiveStep *live, const float *states, const Buffers *b) {
    const int64_t rows = live->live.count;
    const Attention *a = &d->attention;
    const float *x = project(&a->in_proj, states, rows, b->projected, b->workspace);
    const float *query = project(&d->score_proj, x, rows, b->query, b->workspace);
    attend(a, query, d->dim, &live->live, step->cross_caches, &live->cross_index, 0, b->context,
           b->scores);
    return project(&a->out_proj, b->context, rows, b->projected, b->workspace);
}

/* x (rows, in_features) through all cells, to the last layer's states. */
static void advance_cells(const RecurrentDecoder *d, const RowState *states, const LiveRows *live,
                          const float *x, const Buffers *b) {
    const int64_t rows = live->count, dim = d->dim;
    const Epilogue add = {.residual = d->is_lstm ? b->input_gates : 0};
    for (int32_t i = 0; i < d->n_layers; i++, x = b->state) {
        const Cell *cell = d->cells + i;
        linear_forward(&cell->input_gates, x, rows, &NO_EPILOGUE, b->input_gates, b->workspace);
        load_states(live, states, i, dim, b->state);
        linear_forward(&cell->hidden_gates, b->state, rows, &add, b->hidden_gates, b->workspace);
        if (d->is_lstm) {
            load_states(live, states + 1, i, dim, b->cell);
            lstm_step(rows, dim, b->hidden_gates, b->cell, b->state);
            store_states(live, states + 1, i, dim, b->cell);
        } else {
            gru_step(rows, dim, b->input_gates, b->hidden_gates, b->state);
        }
        store_states(live, states, i, dim, b->state);
    }
}

int64_t recurrent_step(const RecurrentDecoder *d, const DecodeStep *step, const LiveStep *live,
                       float *x, Arena arena, int64_t size) {
    const int64_t rows = live->live.count, dim = d->dim;
    const RowState *states = step->states, *feeding = states + 1 + (d->is_lstm != 0);
    const Buffers b = alloc_buffers(&arena, d, step);
    if (arena.size > size) return arena.size;

    embed(&d->embedding, dim, rows, live->tokens, live->positions, x);
    const float *context = b.fed;
    if (d->is_input_feeding) {
        load_states(&live->live, feeding, 0, dim, b.fed);
    } else {
        load_states(&live->live, states, d->n_layers - 1, dim, b.state);
        context = attend_source(d, step, live, b.state, &b);
    }
    join(rows, dim, (const float *[]){x, context}, 2, b.joined);
    advance_cells(d, states, &live->live, b.joined, &b);
    if (d->is_input_feeding) {
        context = attend_source(d, step, live, b.state, &b);
        join(rows, dim, (const float *[]){context, b.state}, 2, b.joined);
    } else {
        join(rows, dim, (const float *[]){b.state, context, x}, 3, b.joined);
    }
    const Epilogue tanh = {.activation = TANH};
    linear_forward(&d->readout, b.joined, rows, &tanh, x, b.workspace);
    if (d->is_input_feeding) store_states(&live->live, feeding, 0, dim, x);
    return arena.size;
}
