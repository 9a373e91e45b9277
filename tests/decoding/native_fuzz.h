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

void try_search(void);

#endif
