/* An encoder of recurrent cells in both directions; backwards, a sentence begins at its own last
 * token. */
#include "kernels.h"

/* The buffers of a batch. */
typedef struct {
    float *input_gates;   /* (token, direction, gate, width) */
    float *step_gates;    /* (sentence, gate, width), of one step and direction */
    float *hidden_gates;  /* the same, of the states */
    float *state, *cell;  /* (sentence, width), of those that have not ended */
    int64_t *first;       /* (sentence,), its first token */
    int64_t *sentences;   /* (sentence,), those that have not ended */
    void *workspace;      /* of linear maps */
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
    b.first = arena_alloc(arena, sentences * (int64_t)sizeof *b.first);
    b.sentences = arena_alloc(arena, sentences * (int64_t)sizeof *b.sentences);
    b.workspace = arena_alloc(arena, linear_workspace(batch->rows, e->dim));
    return b;
}

/* The token that a sentence reads at step t. */
static int64_t token_at(const EncodeBatch *batch, const Buffers *b, int64_t sentence, int64_t t,
                        int is_backward) {
    return b->first[sentence] + (is_backward ? batch->lengths[sentence] - 1 - t : t);
}

/* Of `count` sentences, drops those that end before step t, and collects what the others read.
 * Returns: how many are left. */
static int64_t collect(const EncodeBatch *batch, const Buffers *b, int64_t count, int64_t t,
                       int is_backward, int64_t width, int64_t gates) {
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t n = b->sentences[i], token = token_at(batch, b, n, t, is_backward);
        if (t >= batch->lengths[n]) continue;
        memmove(b->state + left * width, b->state + i * width, (size_t)width * sizeof(float));
        memmove(b->cell + left * width, b->cell + i * width, (size_t)width * sizeof(float));
        memcpy(b->step_gates + left * gates, b->input_gates + (2 * token + is_backward) * gates,
               (size_t)gates * sizeof(float));
        b->sentences[left++] = n;
    }
    return left;
}

/* One direction of a layer, to its half of hidden (token, direction, width). */
static void encode_direction(const RecurrentEncoder *e, const EncodeBatch *batch,
                             const Linear *map, int is_backward, float *hidden, const Buffers *b) {
    const int64_t width = e->dim / 2, gates = map->out_features;
    const Epilogue epilogue = {.residual = e->is_lstm ? b->step_gates : 0};
    int64_t count = batch->sentences;
    memset(b->state, 0, (size_t)(count * width) * sizeof(float));
    memset(b->cell, 0, (size_t)(count * width) * sizeof(float));
    for (int64_t n = 0; n < count; n++) b->sentences[n] = n;
    for (int64_t t = 0; t < batch->max_length; t++) {
        count = collect(batch, b, count, t, is_backward, width, gates);
        linear_forward(map, b->state, count, &epilogue, b->hidden_gates, b->workspace);
        if (e->is_lstm) lstm_step(count, width, b->hidden_gates, b->cell, width, b->state);
        else gru_step(count, width, b->step_gates, b->hidden_gates, b->state);
        for (int64_t i = 0; i < count; i++) {
            const int64_t token = token_at(batch, b, b->sentences[i], t, is_backward);
            memcpy(hidden + (2 * token + is_backward) * width, b->state + i * width,
                   (size_t)width * sizeof(float));
        }
    }
}

int64_t s2s_encode_recurrent(const RecurrentEncoder *e, const EncodeBatch *batch, float *hidden,
                             void *workspace, int64_t size) {
    const int64_t error = check_tokens(batch->tokens, batch->rows, e->vocab_size);
    if (error) return error;

    Arena arena = {workspace, 0};
    const Buffers b = alloc_buffers(&arena, e, batch);
    if (arena.size > size) return arena.size;

    int64_t first = 0;
    for (int64_t n = 0; n < batch->sentences; first += batch->lengths[n++]) b.first[n] = first;
    embed_tokens(e->token_embedding, e->embedding_scale, batch->tokens, batch->rows, e->dim,
                 hidden);
    for (int32_t i = 0; i < e->n_layers; i++) {
        const BidirectionalLayer *l = e->layers + i;
        const Epilogue nothing = {.activation = NO_ACTIVATION};
        linear_forward(&l->input_gates, hidden, batch->rows, &nothing, b.input_gates, b.workspace);
        encode_direction(e, batch, &l->forward_gates, 0, hidden, &b);
        encode_direction(e, batch, &l->backward_gates, 1, hidden, &b);
    }
    return arena.size;
}
