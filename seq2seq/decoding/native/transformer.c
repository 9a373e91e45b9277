/* A step of a Transformer's decoder, and its encoder. */
#include "native.h"
#include "vectors.h"
#include <assert.h>
#include <math.h>

/* A layer of the decoder; the encoder's have no `cross`. What the decoder wrote is read by `own`, or
 * remembered by `unit`. */
typedef struct {
    attention own, cross;
    recurrence unit;
    feed feed;
} layer;

typedef struct {
    int32_t dim, layers, is_pre; /* is_pre: do norms stand before the sub-layers, not after? */
    const layer *layer;
    norm last;
    const float *words;  /* (vocabulary, dim) */
    float words_scale;
    const float *places; /* (positions, dim), added to words; or NULL */
    int64_t vocabulary, positions; /* ids, and positions in all tables, are below these */
} stack;

/* What a step of the decoder reads: one new token in each row. */
typedef struct {
    int64_t rows;
    const int64_t *tokens, *positions; /* (rows,) */
    int64_t positions_step;            /* 0: all rows are at the first position */
    readable own, source;              /* own: the new token included, last */
    const memory *pasts, *sources;     /* of each layer */
    float *const *states;              /* of each `unit`, (rows, dim), at first 0; or NULL */
} step;

void *reserve(arena *room, int64_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    char *place = room->next;
    if (place) room->next += bytes;
    room->size += bytes;
    return place;
}

static float *floats(arena *room, int64_t rows, int64_t columns) {
    return reserve(room, rows * columns * (int64_t)sizeof(float));
}

static reading lists(arena *room, const readable *of) {
    reading read = {of->lines, of->columns, 0, 0};
    read.slots = reserve(room, of->lines * of->columns * 4);
    read.lengths = reserve(room, of->lines * 4);
    return read;
}

void normalise(const norm *n, const float *x, int64_t rows, int64_t dim, float *y) {
    if (n->kind == NO_NORM) {
        if (x != y) memcpy(y, x, (size_t)(rows * dim) * sizeof *x);
        return;
    }
    for (int64_t r = 0; r < rows; r++, x += dim, y += dim) {
        vec sum = spread(0), squares = spread(0);
        if (n->kind == LAYER_NORM)
            for (int64_t i = 0; i < dim; i += LANES) sum += load_part(x + i, dim - i);
        const float mean = sum_of(sum) / (float)dim;
        for (int64_t i = 0; i < dim; i += LANES) {
            vec centred = load_part(x + i, dim - i) - mean;
            for (int64_t j = dim - i; j < LANES; j++) centred[j] = 0;
            squares += centred * centred;
        }
        const float variance = sum_of(squares) / (float)dim;
        /* Numbers too large to be squared are no model's: as on torch, what follows is not finite. */
        const int overflows = n->kind == LAYER_NORM && !isfinite(variance);
        const float scale = overflows ? NAN : 1 / sqrtf(variance + n->epsilon);
        for (int64_t i = 0; i < dim; i += LANES) {
            vec v = (load_part(x + i, dim - i) - mean) * scale * load_part(n->weight + i, dim - i);
            if (n->bias) v += load_part(n->bias + i, dim - i);
            store_part(y + i, v, dim - i);
        }
    }
}

static void embed(const stack *s, const int64_t *tokens, const int64_t *positions, int64_t step,
                  int64_t rows, float *x) {
    for (int64_t r = 0; r < rows; r++) {
        assert(0 <= tokens[r] && tokens[r] < s->vocabulary);
        assert(0 <= positions[r * step] && positions[r * step] < s->positions);
        const float *word = s->words + tokens[r] * s->dim;
        const float *place = s->places ? s->places + positions[r * step] * s->dim : 0;
        for (int64_t i = 0; i < s->dim; i++)
            *x++ = word[i] * s->words_scale + (place ? place[i] : 0);
    }
}

/* The buffers of a batch of rows. */
typedef struct {
    float *y, *queries, *read, *hidden, *gates, *scores;
    void *work;
} buffers;

static int64_t larger_of(int64_t a, int64_t b) { return a > b ? a : b; }

static buffers buffers_of(arena *room, const stack *s, int64_t rows, int64_t longest) {
    int64_t queries = s->dim, hidden = s->dim;
    for (int32_t i = 0; i < s->layers; i++) {
        queries = larger_of(queries, s->layer[i].own.in.outputs);
        queries = larger_of(queries, s->layer[i].unit.in.outputs);
        hidden = larger_of(hidden, s->layer[i].feed.up.outputs);
    }
    buffers b;
    b.y = floats(room, rows, s->dim);
    b.queries = floats(room, rows, queries);
    b.read = floats(room, rows, s->dim);
    b.hidden = floats(room, rows, hidden);
    b.gates = floats(room, rows, hidden);
    b.scores = floats(room, 1, longest + LANES);
    b.work = reserve(room, product_work(rows, larger_of(hidden, queries)));
    return b;
}

/* What a sub-layer reads of x: x itself, or its norm. */
static const float *entered(const stack *s, const norm *n, const float *x, int64_t rows,
                            const buffers *b) {
    if (!s->is_pre) return x;
    normalise(n, x, rows, s->dim, b->y);
    return b->y;
}

/* x += what the last map of a sub-layer makes of `from`. */
static void leave(const stack *s, const norm *n, const linear *out, const float *from, float *x,
                  int64_t rows, const buffers *b) {
    const after add = {.added = x};
    product(out, from, rows, &add, x, b->work);
    if (!s->is_pre) normalise(n, x, rows, s->dim, x);
}

static void feed_forward(const stack *s, const feed *f, float *x, int64_t rows, const buffers *b) {
    const float *y = entered(s, &f->norm, x, rows, b);
    after up = {.activation = f->activation};
    if (f->gate.packed) {
        const after nothing = {.activation = NO_ACTIVATION};
        product(&f->gate, y, rows, &nothing, b->gates, b->work);
        up.gate = b->gates;
    }
    product(&f->up, y, rows, &up, b->hidden, b->work);
    leave(s, &f->norm, &f->down, b->hidden, x, rows, b);
}

/* Queries, in self-attention with keys and values beside them, with their positions. */
static void project(const stack *s, const attention *a, const float *x, int64_t rows,
                    const int64_t *positions, int64_t step, const buffers *b) {
    const after nothing = {.activation = NO_ACTIVATION};
    product(&a->in, entered(s, &a->norm, x, rows, b), rows, &nothing, b->queries, b->work);
    if (a->turns)
        for (int64_t r = 0; r < rows; r++)
            rotate(a, a->heads + a->groups, positions[r * step], b->queries + r * a->in.outputs);
}

/* Write the new keys and values of each row to the last slot that it reads. */
static void remember(const attention *a, int64_t rows, const memory *past, const reading *read,
                     const float *queries) {
    const int64_t D = a->width, G = a->groups;
    for (int64_t r = 0; r < rows; r++) {
        const float *keys = queries + r * a->in.outputs + a->heads * D, *values = keys + G * D;
        const int64_t slot = read->slots[r * read->columns + read->lengths[r] - 1];
        const int64_t place = r / (rows / past->rows) * past->row_stride + slot * past->slot_stride;
        for (int64_t g = 0; g < G; g++) {
            const int64_t at = place + g * past->group_stride;
            memcpy(past->keys + at, keys + g * D, (size_t)D * sizeof(float));
            memcpy(past->values + at, values + g * D, (size_t)D * sizeof(float));
        }
    }
}

/* What stands for self-attention where a row remembers one vector c. */
static void recall(const stack *s, const recurrence *u, int64_t rows, float *c, float *x,
                   const buffers *b) {
    const after nothing = {.activation = NO_ACTIVATION};
    product(&u->in, entered(s, &u->norm, x, rows, b), rows, &nothing, b->queries, b->work);
    recur(b->queries, rows, s->dim, c, x);
    if (!s->is_pre) normalise(&u->norm, x, rows, s->dim, x);
}

/* Decode one token of every row: hidden (rows, dim). Returns: the bytes that `work` must have; if
 * it has less, nothing else is done. */
int64_t decode(const stack *s, const step *batch, float *hidden, void *work, int64_t size) {
    arena room = {work, 0};
    const int64_t N = batch->rows;
    reading own = lists(&room, &batch->own), source = lists(&room, &batch->source);
    const buffers b =
        buffers_of(&room, s, N, larger_of(batch->own.columns, batch->source.columns));
    if (room.size > size) return room.size;
    list_slots(&batch->own, &own);
    list_slots(&batch->source, &source);
    embed(s, batch->tokens, batch->positions, batch->positions_step, N, hidden);
    for (int32_t i = 0; i < s->layers; i++) {
        const layer *l = s->layer + i;
        if (l->unit.in.packed) {
            recall(s, &l->unit, N, batch->states[i], hidden, &b);
        } else {
            project(s, &l->own, hidden, N, batch->positions, batch->positions_step, &b);
            remember(&l->own, N, batch->pasts + i, &own, b.queries);
            attend(&l->own, b.queries, l->own.in.outputs, N, batch->pasts + i, &own,
                   batch->positions, batch->positions_step, b.read, b.scores);
            leave(s, &l->own.norm, &l->own.out, b.read, hidden, N, &b);
        }

        project(s, &l->cross, hidden, N, batch->positions, batch->positions_step, &b);
        attend(&l->cross, b.queries, l->cross.in.outputs, N, batch->sources + i, &source,
               batch->positions, batch->positions_step, b.read, b.scores);
        leave(s, &l->cross.norm, &l->cross.out, b.read, hidden, N, &b);

        feed_forward(s, &l->feed, hidden, N, &b);
    }
    normalise(&s->last, hidden, N, s->dim, hidden);
    return room.size;
}

/* Encode sentences without padding, one after another: tokens (rows,) at `positions` (rows,), the
 * first `lengths[0]` of the first sentence, and so on -> states (rows, dim). As `decode`. */
int64_t encode(const stack *s, int64_t sentences, const int64_t *lengths, int64_t rows,
               int64_t longest, const int64_t *tokens, const int64_t *positions, float *states,
               void *work, int64_t size) {
    arena room = {work, 0};
    const readable all = {1, longest, 0, 0, 0};
    reading read = lists(&room, &all);
    const buffers b = buffers_of(&room, s, rows, longest);
    if (room.size > size) return room.size;
    list_slots(&all, &read);
    embed(s, tokens, positions, 1, rows, states);
    for (int32_t i = 0; i < s->layers; i++) {
        const attention *a = &s->layer[i].own;
        project(s, a, states, rows, positions, 1, &b);
        int64_t first = 0;
        for (int64_t n = 0; n < sentences; first += lengths[n++]) {
            float *queries = b.queries + first * a->in.outputs;
            float *keys = queries + a->heads * a->width;
            const memory store = {keys, keys + a->groups * a->width, 1, 0, a->width, a->in.outputs};
            *read.lengths = (int32_t)lengths[n];
            attend(a, queries, a->in.outputs, lengths[n], &store, &read, positions + first, 1,
                   b.read + first * s->dim, b.scores);
        }
        leave(s, &a->norm, &a->out, b.read, states, rows, &b);
        feed_forward(s, &s->layer[i].feed, states, rows, &b);
    }
    normalise(&s->last, states, rows, s->dim, states);
    return room.size;
}

/* y (rows, outputs) = x (rows, inputs) W^T + bias. As `decode`. */
int64_t outputs(const linear *w, const float *x, int64_t rows, float *y, void *work, int64_t size) {
    const int64_t needed = product_work(rows, w->inputs);
    const after nothing = {.activation = NO_ACTIVATION};
    if (needed <= size) product(w, x, rows, &nothing, y, work);
    return needed;
}

/* Log-probabilities of the best outputs of each row: x (rows, inputs). As `decode`. */
int64_t best_outputs(const linear *w, const float *x, int64_t rows, const best *found, void *work,
                     int64_t size) {
    arena room = {work, 0};
    best all = *found;
    all.largest = floats(&room, 1, rows);
    all.sums = floats(&room, 1, rows);
    void *of_product = reserve(&room, product_work(rows, w->inputs));
    if (room.size > size) return room.size;
    const after only = {.best = &all};
    product(w, x, rows, &only, 0, of_product);
    for (int64_t r = 0; r < rows; r++) {
        const float log_sum = all.largest[r] + logf(all.sums[r]);
        for (int64_t i = 0; i < all.count; i++) all.values[r * all.count + i] -= log_sum;
    }
    return room.size;
}
