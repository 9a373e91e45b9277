/* Recurrent cells: what they read, and what they do with their gates, element by element. */
#include "kernels.h"

int64_t check_tokens(const int64_t *tokens, int64_t rows, int64_t vocab_size) {
    for (int64_t r = 0; r < rows; r++)
        if (tokens[r] < 0 || tokens[r] >= vocab_size) return -BAD_TOKEN;
    return NO_ERROR;
}

void embed_tokens(const float *embedding, float scale, const int64_t *tokens, int64_t rows,
                  int64_t dim, float *x) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < dim; i++) *x++ = embedding[tokens[r] * dim + i] * scale;
}

void gru_step(int64_t rows, int64_t dim, const float *x, const float *h, float *state) {
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

void lstm_step(int64_t rows, int64_t dim, const float *x, float *cell, int64_t stride,
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
