/* An encoder of recurrent cells in both directions; backwards, a sentence begins at its own last
 * token. */
#include "kernels.h"

/* The buffers of a batch. */
typedef struct {
    float *input_gates;               /* (token, direction, gate, width) */
    float *step_gates, *hidden_gates; /* (sentence, gate, width), of the inputs and the states of one
                                       * step and direction */
    float *state, *cell;              /* (sentence, width) */
    int64_t *lengths, *first; /* (sentence,), longest first; and the first token of each */
    void *workspace;          /* of linear maps */
} Buffers;

static Buffers alloc_buffers(Arena *arena, const RecurrentEncoder *e, const EncodeBatch *batch) {
    const int64_t sentences = batch->sentences, width = e->dim / 2;
    const int64_t gates = e->layers->forward_gates.out_features;
    Buffers b;
    b.input_gates = alloc_floats(arena, batch->rows, 2 * gates);
    b.step_gates = alloc_floats(arena, sentences, gates);
    b.hidden_gates = alloc_floats(arena, sentences, gates);
    b.state = alloc_floats(arena, sentences, width);
    b.cell = alloc_floats(arena, sentences, width);
    b.lengths = arena_alloc(arena, sentences * 8);
    b.first = arena_alloc(arena, sentences * 8);
    b.workspace = arena_alloc(arena, linear_workspace(batch->rows, e->dim));
    return b;
}

/* Longest first, so that those which have not ended are the first ones. */
static void sort_sentences(const EncodeBatch *batch, const Buffers *b) {
    int64_t first = 0;
    for (int64_t n = 0; n < batch->sentences; n++) {
        const int64_t length = batch->lengths[n];
        int64_t i = n;
        for (; i && b->lengths[i - 1] < length; i--)
            b->lengths[i] = b->lengths[i - 1], b->first[i] = b->first[i - 1];
        b->lengths[i] = length, b->first[i] = first;
        first += length;
    }
}

/* The place (token, direction) that sentence i is at in step t. */
static int64_t place_of(const Buffers *b, int64_t i, int64_t t, int is_backward) {
    return 2 * (b->first[i] + (is_backward ? b->lengths[i] - 1 - t : t)) + is_backward;
}

/* One direction of a layer, to its half of hidden (token, direction, width). */
static void encode_direction(const RecurrentEncoder *e, const EncodeBatch *batch,
                             const Linear *map, int is_backward, float *hidden, const Buffers *b) {
    const int64_t width = e->dim / 2, gates = map->out_features;
    const Epilogue epilogue = {.residual = e->is_lstm ? b->step_gates : 0};
    int64_t count = batch->sentences;
    memset(b->state, 0, (size_t)(count * width) * sizeof(float));
    memset(b->cell, 0, (size_t)(count * width) * sizeof(float));
    for (int64_t t = 0; t < batch->max_length; t++) {
        while (count && b->lengths[count - 1] <= t) count--;
        for (int64_t i = 0; i < count; i++)
            memcpy(b->step_gates + i * gates,
                   b->input_gates + place_of(b, i, t, is_backward) * gates,
                   (size_t)gates * sizeof(float));
        linear_forward(map, b->state, count, &epilogue, b->hidden_gates, b->workspace);
        if (e->is_lstm) lstm_step(count, width, b->hidden_gates, b->cell, b->state);
        else gru_step(count, width, b->step_gates, b->hidden_gates, b->state);
        for (int64_t i = 0; i < count; i++)
            memcpy(hidden + place_of(b, i, t, is_backward) * width, b->state + i * width,
                   (size_t)width * sizeof(float));
    }
}

int64_t s2s_encode_recurrent(const RecurrentEncoder *e, const EncodeBatch *batch, float *hidden,
                             void *workspace, int64_t size) {
    const int64_t error = check_ids(&e->embedding, batch->rows, batch->tokens, 0, 0);
    if (error) return error;

    Arena arena = {workspace, 0};
    const Buffers b = alloc_buffers(&arena, e, batch);
    if (arena.size > size) return arena.size;

    sort_sentences(batch, &b);
    embed(&e->embedding, e->dim, batch->rows, batch->tokens, 0, hidden);
    for (int32_t i = 0; i < e->n_layers; i++) {
        const BidirectionalLayer *l = e->layers + i;
        linear_forward(&l->input_gates, hidden, batch->rows, &NO_EPILOGUE, b.input_gates, b.workspace);
        encode_direction(e, batch, &l->forward_gates, 0, hidden, &b);
        encode_direction(e, batch, &l->backward_gates, 1, hidden, &b);
    }
    return arena.size;
}
