/* Recurrent cells: what they do with their gates, element by element. */
#include "kernels.h"

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

void lstm_step(int64_t rows, int64_t dim, const float *x, float *cell, float *state) {
    for (int64_t r = 0; r < rows; r++, x += 4 * dim, cell += dim, state += dim)
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
