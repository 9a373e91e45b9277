/* What the C files share among themselves, and nobody else sees. */
#ifndef KERNELS_H
#define KERNELS_H

#include "native.h"
#include "vectors.h"

/* Columns of a panel, and of a block: see linear.c. */
enum { NR_VECTORS = REGISTERS == 32 ? 4 : 2, NR = NR_VECTORS * LANES, NC = 16 * LANES };

/* Scratch memory, handed out from the front: the same calls count the bytes that a function needs,
 * and hand them out. */
typedef struct {
    char *next;   /* NULL: nothing is handed out, only counted */
    int64_t size; /* bytes handed out */
} Arena;

static inline int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

static inline void *arena_alloc(Arena *arena, int64_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    char *start = arena->next;
    if (start) arena->next += bytes;
    arena->size += bytes;
    return start;
}

static inline float *alloc_floats(Arena *arena, int64_t rows, int64_t columns) {
    return arena_alloc(arena, rows * columns * (int64_t)sizeof(float));
}

/* What is done with the results of a linear map while they are in the cache, in this order: bias,
 * activation, times `gate`, plus `residual`. */
typedef struct {
    int32_t activation;
    const float *gate;     /* (rows, out_features), or NULL */
    const float *residual; /* (rows, out_features), or NULL; may be the result itself */
    const TopK *topk;      /* or NULL; else of each row only this is written, and */
    float *max, *sum_exp;  /* (rows,): the largest result, and the sum of e^(result - max) */
} Epilogue;

static const Epilogue NO_EPILOGUE = {.activation = NO_ACTIVATION};

/* y (rows, out_features) = x (rows, in_features) W^T and what follows it. */
void linear_forward(const Linear *map, const float *x, int64_t rows, const Epilogue *epilogue,
                    float *y, void *workspace);
int64_t linear_workspace(int64_t rows, int64_t in_features);
/* Units of the inputs: see linear.c. */
int64_t linear_depth(const Linear *map);
/* x (rows, in_features) -> each row rounded to integers, (rows, int8_stride), and its scale,
 * (rows,). */
int64_t int8_stride(int64_t in_features);
void quantize_rows(const Linear *map, const float *x, int64_t rows, int8_t *integers,
                   float *scales);

/* The sums (rows, NC) of a block, from row `row` and column `first` to `end`, are complete: turns
 * them into results. row_scales: (rows,), in int8. */
void store_tile(const Linear *map, const Epilogue *epilogue, int64_t row, int64_t rows,
                const float *row_scales, int64_t first, int64_t end, const float *sums, float *y);
/* Looks at the results of a row in columns `first` to `end`, or at these places of its list; they
 * have room for whole vectors. */
void update_topk(const Epilogue *epilogue, int64_t row, int64_t first, int64_t end,
                 float *results);
/* After all results of a row: log-probabilities in place of them. */
void finish_topk(const Epilogue *epilogue, int64_t row);
/* The best of x (rows, in_features), as `epilogue` says, in the lists of the rows.
 * workspace: as linear_forward's. */
void shortlist_forward(const Linear *head, const float *x, int64_t rows, const Epilogue *epilogue,
                       void *workspace);
/* -BAD_LIST if a list is none, or has an output that the head does not have. lists: or NULL. */
int64_t check_lists(const Linear *head, const Shortlist *lists, int64_t rows);

/* -BAD_LIST if lists or constraints are none of this head and of so many rows. */
int64_t check_topk(const Linear *head, const TopK *topk, int64_t rows);
/* s2s_topk of what is checked. */
void find_topk(const Linear *head, const float *hidden, int64_t rows, const TopK *topk,
               void *workspace);
int64_t topk_workspace(const Linear *head, int64_t rows);
/* s2s_find_candidates and s2s_choose in turn, of what is checked. */
int64_t check_search(const Linear *head, const TopK *topk, const Search *search);
int64_t advance_search(const Linear *head, const float *hidden, const TopK *topk,
                       const Search *search, const StepOutput *out, void *workspace, int64_t size);
/* Is a row's best output of use? Those of sentences that are not done, and of live beams. */
int is_live(const Search *search, const uint8_t *done, int64_t row);

enum { MAX_BEAMS = 32 };

/* A KVView as lists of slots. */
typedef struct {
    int64_t rows, capacity;
    int32_t *slots;   /* (rows, capacity) */
    int32_t *lengths; /* (rows,), how many count */
} KVIndex;

/* The rows of a batch that are computed: all, or some. */
typedef struct {
    int64_t count, total;
    const int64_t *rows; /* (count,), ascending; NULL: all */
} LiveRows;

static inline int64_t live_row(const LiveRows *live, int64_t i) {
    return live->rows ? live->rows[i] : i;
}

/* The start of what a cache holds for one of so many rows, which may share its rows. */
int64_t cache_offset(const KVCache *cache, int64_t row, int64_t rows);
KVIndex alloc_kv_index(Arena *arena, const KVView *view);
void build_kv_index(const KVView *view, KVIndex *index);
/* Rotates heads (heads, head_dim) by a position, in place. */
void apply_rope(const Attention *a, int64_t heads, int64_t position, float *x);
/* queries: (live, queries_stride), of which the first are (n_heads, head_dim) ->
 * out: (live, n_heads, head_dim), zeros where a row reads nothing. positions: (live,).
 * scores: (index->capacity + LANES,), scratch. */
void attend(const Attention *a, const float *queries, int64_t queries_stride,
            const LiveRows *live, const KVCache *cache, const KVIndex *index,
            const int64_t *positions, float *out, float *scores);

/* Ids and positions come from outside: nothing is read at one that an embedding lacks. positions:
 * stride apart, or NULL: they are not read. */
int64_t check_ids(const Embedding *e, int64_t rows, const int64_t *tokens,
                  const int64_t *positions, int64_t stride);
/* positions: only read if the embedding has some. -> x (rows, dim) */
void embed(const Embedding *e, int64_t dim, int64_t rows, const int64_t *tokens,
           const int64_t *positions, float *x);

/* The rows of a step that are computed. */
typedef struct {
    LiveRows live;
    int64_t *tokens, *positions; /* (live,) */
    KVIndex self_index, cross_index; /* what all rows read, the same in all layers */
} LiveStep;

/* Hidden states x (live, dim). Returns: the scratch memory that is needed, with what was handed out
 * before; if it is more than `size`, nothing was done. */
int64_t transformer_step(const Stack *s, const DecodeStep *step, const LiveStep *live, float *x,
                         Arena arena, int64_t size);
int64_t recurrent_step(const RecurrentDecoder *d, const DecodeStep *step, const LiveStep *live,
                       float *x, Arena arena, int64_t size);

/* r, z = sigmoid(x + h),  n = tanh(x + r h),  state = (1 - z) n + z state, where x and h are the
 * gates r, z, n of the input and of the state, (rows, 3, dim) each. */
void gru_step(int64_t rows, int64_t dim, const float *x, const float *h, float *state);
/* i, f, o = sigmoid(x),  g = tanh(x),  cell = f cell + i g,  state = o tanh(cell), where x are the
 * gates i, f, g, o, (rows, 4, dim). */
void lstm_step(int64_t rows, int64_t dim, const float *x, float *cell, float *state);

/* x and gates side by side (2, dim), of one row; changes the state c and adds to y, (dim,). */
void ssru_step(const float *x, int64_t dim, float *c, float *y);

#endif
