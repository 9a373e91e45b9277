/* The draws of searches, and their comparison. */
#ifndef SEARCH_FUZZ_H
#define SEARCH_FUZZ_H

#include "kernels.h"
#include "native_fuzz.h"

typedef struct {
    Search search;
    StepOutput out;
    TopK topk;
} Run;

/* Sentences at their start, perhaps with a list for each row, mostly without room to spare. */
Run any_run(const Linear *head, int64_t beams, int is_greedy);
/* Some of its sentences with nothing beside them. */
Run run_of(const Run *all, int64_t first, int64_t count);
/* Stops unless numbers are the same, bit by bit, NaN aside. */
void compare(const char *name, const double *all, const double *alone, int64_t count);
void compare_ids(const char *name, const int64_t *all, const int64_t *alone, int64_t count);
/* The state of sentence b against that of the sentence alone. */
void compare_states(const Run *all, const Run *alone, int64_t b);

#endif
