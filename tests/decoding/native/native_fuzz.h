/* The draws that all parts of the fuzz share. */
#ifndef NATIVE_FUZZ_H
#define NATIVE_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "native.h"

int64_t draw(int64_t least, int64_t most); /* both included */
void *get(int64_t bytes);                  /* of exactly this size, until the next model */
void *copy(const void *x, int64_t bytes);  /* the same of a copy; NULL of NULL */
float *numbers(int64_t count);
Linear map(int64_t inputs, int64_t outputs, int is_int8);
/* Of layers with a recurrent unit, in a decoder only, or with self-attention. */
Stack any_stack(int64_t positions, int64_t words, int is_recurrent);
RecurrentDecoder any_recurrent(int64_t words);
/* A cache of so many rows, which may lie among others that left. */
KVCache any_cache(int64_t rows, int64_t heads, int64_t slots, int64_t head_dim);
/* A list of the outputs of a map for each row. */
Shortlist any_lists(const Linear *map, int64_t rows);
/* Constraints of some of the rows. */
Constraints any_constraints(const Linear *map, int64_t rows);

void try_search(void);
void try_decode_steps(void);

#endif
