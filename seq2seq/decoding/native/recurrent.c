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

static void embed(const RecurrentDecoder *d, const int64_t *tokens, int64_t rows, float *x) {
    for (int64_t r = 0; r < rows; r++) {
        const float *token = d->token_embedding + tokens[r] * d->dim;
        for (int64_t i = 0; i < d->dim; i++) *x++ = token[i] * d->embedding_scale;
    }
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
    attend(a, query, d->dim, step->rows, &step->source, index, 0, 0, b->context, b->scores);
    return project(&a->out_proj, b->context, step->rows, b->projected, b->workspace);
}

/* r, z = sigmoid(x + h),  n = tanh(x + r h),  state = (1 - z) n + z state, where x and h are the
 * gates r, z, n of the input and of the state, (rows, 3, dim) each. */
static void gru_step(int64_t rows, int64_t dim, const float *x, const float *h, float *state) {
    for (int64_t r = 0; r < rows; r++, x += 3 * dim, h += 3 * dim, state += dim)
        for (int64_t i = 0; i < dim; i += LANES) {
            const int64_t n = dim - i;
            const vec reset = sigmoid(load_partial(x + i, n) + load_partial(h + i, n));
            const vec update =
                sigmoid(load_partial(x + dim + i, n) + load_partial(h + dim + i, n));
            const vec candidate = vector_tanh(load_partial(x + 2 * dim + i, n) +
                                              reset * load_partial(h + 2 * dim + i, n));
            const vec before = load_partial(state + i, n);
            store_partial(state + i, candidate + update * (before - candidate), n);
        }
}

/* i, f, o = sigmoid(x),  g = tanh(x),  cell = f cell + i g,  state = o tanh(cell), where x are the
 * gates i, f, g, o, (rows, 4, dim), and cells are `stride` apart. */
static void lstm_step(int64_t rows, int64_t dim, const float *x, float *cell, int64_t stride,
                      float *state) {
    for (int64_t r = 0; r < rows; r++, x += 4 * dim, cell += stride, state += dim)
        for (int64_t i = 0; i < dim; i += LANES) {
            const int64_t n = dim - i;
            const vec input = sigmoid(load_partial(x + i, n));
            const vec forget = sigmoid(load_partial(x + dim + i, n));
            const vec written = vector_tanh(load_partial(x + 2 * dim + i, n));
            const vec output = sigmoid(load_partial(x + 3 * dim + i, n));
            const vec after = forget * load_partial(cell + i, n) + input * written;
            store_partial(cell + i, after, n);
            store_partial(state + i, output * vector_tanh(after), n);
        }
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
    for (int64_t r = 0; r < step->rows; r++)
        if (step->tokens[r] < 0 || step->tokens[r] >= d->vocab_size) return -BAD_TOKEN;

    Arena arena = {workspace, 0};
    KVIndex index = alloc_kv_index(&arena, &step->source_view);
    const Buffers b = alloc_buffers(&arena, d, step);
    if (arena.size > size) return arena.size;

    build_kv_index(&step->source_view, &index);
    embed(d, step->tokens, step->rows, b.embedded);
    (d->is_input_feeding ? luong_step : bahdanau_step)(d, step, &index, hidden, &b);
    return arena.size;
}
