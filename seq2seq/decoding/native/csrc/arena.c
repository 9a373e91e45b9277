/* Scratch memory: the same calls count the bytes that a function needs, and hand them out. */
#include "kernels.h"

void *arena_alloc(Arena *arena, int64_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    char *start = arena->next;
    if (start) arena->next += bytes;
    arena->size += bytes;
    return start;
}

float *alloc_floats(Arena *arena, int64_t rows, int64_t columns) {
    return arena_alloc(arena, rows * columns * (int64_t)sizeof(float));
}
