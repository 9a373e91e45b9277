/* Ids and positions, and the vectors that they stand for. */
#include "kernels.h"

int64_t check_ids(const Embedding *e, int64_t rows, const int64_t *tokens,
                  const int64_t *positions, int64_t stride) {
    for (int64_t r = 0; r < rows; r++) {
        if (tokens[r] < 0 || tokens[r] >= e->vocab_size) return -BAD_TOKEN;
        if (!positions) continue;
        const int64_t position = positions[r * stride];
        if (position < 0 || position >= e->max_positions) return -BAD_POSITION;
    }
    return NO_ERROR;
}

void embed(const Embedding *e, int64_t dim, int64_t rows, const int64_t *tokens,
           const int64_t *positions, float *x) {
    for (int64_t r = 0; r < rows; r++) {
        const float *token = e->tokens + tokens[r] * dim;
        const float *place = e->positions ? e->positions + positions[r] * dim : 0;
        for (int64_t i = 0; i < dim; i++) *x++ = token[i] * e->scale + (place ? place[i] : 0);
    }
}
