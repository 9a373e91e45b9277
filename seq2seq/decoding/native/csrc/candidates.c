/* The best outputs of each row of a large map, found while it is multiplied: the logits are never
 * written. */
#include "kernels.h"

/* -BAD_LIST if there are no such rows, or tokens. */
static int64_t check_constraints(const Linear *head, const Constraints *constraints,
                                 int64_t rows) {
    if (!constraints) return NO_ERROR;
    if (constraints->outputs != head->out_features) return -BAD_LIST;
    for (int64_t r = 0; r < rows; r++)
        if (constraints->places[r] < -1 || constraints->places[r] >= constraints->count)
            return -BAD_LIST;
    for (int64_t i = 0; i < constraints->count * constraints->width; i++)
        if (constraints->required[i] < -1 || constraints->required[i] >= head->out_features)
            return -BAD_LIST;
    return NO_ERROR;
}

int64_t topk_workspace(const Linear *head, int64_t rows) {
    return linear_workspace(rows, head->in_features) + 2 * rows * (int64_t)sizeof(float);
}

void find_topk(const Linear *head, const float *hidden, int64_t rows, const TopK *topk,
               void *workspace) {
    float *max = (float *)((char *)workspace + linear_workspace(rows, head->in_features));
    const Epilogue epilogue = {.topk = topk, .max = max, .sum_exp = max + rows};
    if (topk->shortlist) shortlist_forward(head, hidden, rows, &epilogue, workspace);
    else linear_forward(head, hidden, rows, &epilogue, 0, workspace);
    for (int64_t r = 0; r < rows; r++) finish_topk(&epilogue, r);
}

int64_t check_topk(const Linear *head, const TopK *topk, int64_t rows) {
    const int64_t error = check_lists(head, topk->shortlist, rows);
    return error ? error : check_constraints(head, topk->constraints, rows);
}

int64_t s2s_topk(const Linear *head, const float *hidden, int64_t rows, const TopK *topk,
                 void *workspace, int64_t size) {
    const int64_t error = check_topk(head, topk, rows), needed = topk_workspace(head, rows);
    if (!error && needed <= size) find_topk(head, hidden, rows, topk, workspace);
    return error ? error : needed;
}
