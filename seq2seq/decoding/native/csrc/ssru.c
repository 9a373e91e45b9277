/* The simpler simple recurrent unit (Kim et al. 2019): a running mean c of what was written, whose
 * gate g says how much of the past stays. Nothing else is remembered.
 *
 *     c = f c + (1 - f) x,   f = sigmoid(g),   y += relu(c) */
#include "kernels.h"

void ssru_step(const float *x, int64_t dim, float *c, float *y) {
    for (int64_t i = 0; i < dim; i += LANES) {
        const int64_t n = dim - i;
        const vec g = load_partial(x + dim + i, n);
        /* 1 - f = sigmoid(-g), also where f is near 1. */
        const vec mean = sigmoid(g) * load_partial(c + i, n) + sigmoid(-g) * load_partial(x + i, n);
        store_partial(c + i, mean, n);
        store_partial(y + i, load_partial(y + i, n) + maximum(broadcast(0), mean), n);
    }
}
