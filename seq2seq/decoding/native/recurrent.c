/* A step of a decoder of recurrent cells, after which each row has a new state.
 *
 *     Bahdanau:  c = attend(s),  s = cells([y; c], s),  hidden = tanh(W [s; c; y])
 *     Luong:     s = cells([y; t], s),  c = attend(s),  hidden = t = tanh(W [c; s])
 *
 * y is the embedding of the token, s the last layer's state where it stands alone. */
#include "kernels.h"

/* The buffers of a batch of rows. */
typedef struct {
    float *embedded;    /* (row, dim) */
    float *context;     /* (row, dim), what attention read */
    float *joined;      /* (row, up to 3 of dim), what enters the first cell, or the readout */
    float *state;       /* (row, dim), of a layer, without gaps */
    float *input_gates; /* (row, gate, dim) */
    float *hidden_gates; /* the same */
    float *projected;   /* (row, dim), of a query or a context */
    float *query;       /* (row, dim), as the score compares it */
    float *scores;      /* (slot,), of one query and head, and a vector more */
    void *workspace;    /* of linear maps */
} Buffers;

static Buffers alloc_buffers(Arena *arena, const RecurrentDecoder *d, const RecurrentStep *step) {
    const int64_t rows = step->rows, dim = d->dim, gates = d->cells->input_gates.out_features;
    Buffers b;
    b.embedded = alloc_floats(arena, rows, dim);
    b.context = alloc_floats(arena, rows, dim);
    b.joined = alloc_floats(arena, rows, 3 * dim);
    b.state = alloc_floats(arena, rows, dim);
    b.input_gates = alloc_floats(arena, rows, gates);
    b.hidden_gates = alloc_floats(arena, rows, gates);
    b.projected = alloc_floats(arena, rows, dim);
    b.query = alloc_floats(arena, rows, dim);
    b.scores = alloc_floats(arena, 1, step->source_view.length + LANES);
    b.workspace = arena_alloc(arena, linear_workspace(rows, 3 * dim));
    return b;
}

/* (rows, dim) from one place to another, where rows are so far apart. */
static void copy_rows(int64_t rows, int64_t dim, const float *from, int64_t from_stride, float *to,
                      int64_t to_stride) {
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * to_stride, from + r * from_stride, (size_t)dim * sizeof *to);
}

/* x (rows, in_features) itself, or its linear map where there is one, in y. */
static const float *project(const Linear *map, const float *x, int64_t rows, float *y,
                            void *workspace) {
    const Epilogue nothing = {.activation = NO_ACTIVATION};
    if (!map->panels) return x;
    linear_forward(map, x, rows, &nothing, y, workspace);
    return y;
}

/* The contexts of states (rows, dim). */
static const float *attend_source(const RecurrentDecoder *d, const RecurrentStep *step,
                                  const KVIndex *index, const float *states, const Buffers *b) {
    const Attention *a = &d->attention;
    const float *x = project(&a->in_proj, states, step->rows, b->projected, b->workspace);
    const float *query = project(&d->score_proj, x, step->rows, b->query, b->workspace);
    const LiveRows all = {step->rows, step->rows, 0};
    attend(a, query, d->dim, &all, &step->source, index, 0, b->context, b->scores);
    return project(&a->out_proj, b->context, step->rows, b->projected, b->workspace);
}

/* `joined` through all cells. Returns: the last layer's states, (rows, dim). */
static const float *advance(const RecurrentDecoder *d, const RecurrentStep *step,
                            const Buffers *b) {
    const int64_t rows = step->rows, dim = d->dim, stride = d->n_layers * dim;
    const float *x = b->joined;
    for (int32_t i = 0; i < d->n_layers; i++, x = b->state) {
        const Cell *cell = d->cells + i;
        float *states = step->hidden + i * dim;
        const Epilogue nothing = {.activation = NO_ACTIVATION};
        const Epilogue add = {.residual = d->is_lstm ? b->input_gates : 0};
        linear_forward(&cell->input_gates, x, rows, &nothing, b->input_gates, b->workspace);
        copy_rows(rows, dim, states, stride, b->state, dim);
        linear_forward(&cell->hidden_gates, b->state, rows, &add, b->hidden_gates, b->workspace);
        if (d->is_lstm)
            lstm_step(rows, dim, b->hidden_gates, step->cell + i * dim, stride, b->state);
        else
            gru_step(rows, dim, b->input_gates, b->hidden_gates, b->state);
        copy_rows(rows, dim, b->state, dim, states, stride);
    }
    return b->state;
}

static void bahdanau_step(const RecurrentDecoder *d, const RecurrentStep *step,
                          const KVIndex *index, float *hidden, const Buffers *b) {
    const int64_t rows = step->rows, dim = d->dim, layers = d->n_layers;
    copy_rows(rows, dim, step->hidden + (layers - 1) * dim, layers * dim, b->state, dim);
    const float *context = attend_source(d, step, index, b->state, b);
    copy_rows(rows, dim, b->embedded, dim, b->joined, 2 * dim);
    copy_rows(rows, dim, context, dim, b->joined + dim, 2 * dim);
    const float *state = advance(d, step, b);
    copy_rows(rows, dim, state, dim, b->joined, 3 * dim);
    copy_rows(rows, dim, context, dim, b->joined + dim, 3 * dim);
    copy_rows(rows, dim, b->embedded, dim, b->joined + 2 * dim, 3 * dim);
    const Epilogue tanh = {.activation = TANH};
    linear_forward(&d->readout, b->joined, rows, &tanh, hidden, b->workspace);
}

static void luong_step(const RecurrentDecoder *d, const RecurrentStep *step, const KVIndex *index,
                       float *hidden, const Buffers *b) {
    const int64_t rows = step->rows, dim = d->dim;
    copy_rows(rows, dim, b->embedded, dim, b->joined, 2 * dim);
    copy_rows(rows, dim, step->attentional, dim, b->joined + dim, 2 * dim);
    const float *state = advance(d, step, b);
    const float *context = attend_source(d, step, index, state, b);
    copy_rows(rows, dim, context, dim, b->joined, 2 * dim);
    copy_rows(rows, dim, state, dim, b->joined + dim, 2 * dim);
    const Epilogue tanh = {.activation = TANH};
    linear_forward(&d->readout, b->joined, rows, &tanh, hidden, b->workspace);
    copy_rows(rows, dim, hidden, dim, step->attentional, dim);
}

int64_t s2s_decode_recurrent(const RecurrentDecoder *d, const RecurrentStep *step, float *hidden,
                             void *workspace, int64_t size) {
    const int64_t error = check_tokens(step->tokens, step->rows, d->vocab_size);
    if (error) return error;

    Arena arena = {workspace, 0};
    KVIndex index = alloc_kv_index(&arena, &step->source_view);
    const Buffers b = alloc_buffers(&arena, d, step);
    if (arena.size > size) return arena.size;

    build_kv_index(&step->source_view, &index);
    embed_tokens(d->token_embedding, d->embedding_scale, step->tokens, step->rows, d->dim,
                 b.embedded);
    (d->is_input_feeding ? luong_step : bahdanau_step)(d, step, &index, hidden, &b);
    return arena.size;
}
