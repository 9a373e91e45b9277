/* What the files of this folder share. Matrices are float32 and row-major, without gaps. */
#ifndef NATIVE_H
#define NATIVE_H

#include <stdint.h>

/* A linear map y = x W^T + bias, with W in the layout of product.c. */
typedef struct {
    int32_t inputs, outputs;
    int32_t is_int8;
    const void *packed;
    const float *scales; /* of int8: that of each output */
    const int32_t *sums; /* of int8: the sum of the integers of each output */
    const float *bias;   /* or NULL */
} linear;

/* The best outputs of each row, instead of all. */
typedef struct {
    int64_t count;           /* C, at most `outputs` */
    const int64_t *never;    /* outputs that are not chosen */
    int64_t nevers, eos;
    const uint8_t *unending; /* (rows,), or NULL: rows that do not choose `eos` either */
    float *values;           /* (rows, C), best first */
    int64_t *ids;            /* (rows, C) */
    float *largest;          /* (rows,), of all outputs; of `best_outputs`, as `sums` */
    float *sums;             /* (rows,), of e^(value - largest) of all outputs */
} best;

enum { NO_ACTIVATION, RELU, GELU, SILU };

/* What follows a product, in this order: bias, activation, times `gate`, plus `added`. */
typedef struct {
    int32_t activation;
    const float *gate;  /* (rows, outputs) or NULL */
    const float *added; /* (rows, outputs) or NULL; may be the result itself */
    const best *best;   /* or NULL; else nothing but these is written */
} after;

enum { NO_NORM, LAYER_NORM, RMS_NORM };

typedef struct {
    int32_t kind;
    float epsilon;
    const float *weight, *bias; /* bias or NULL */
} norm;

/* What is added to scores in each head: (H, stride), by key's minus query's position from the middle
 * on. Nobody changes one: longer ones take its place, whole, while other threads read it. */
typedef struct {
    const float *added;
    int64_t stride;
} distances;

/* Attention of H query heads to G heads of keys and values, D numbers each; G divides H. */
typedef struct {
    linear in, out; /* in: queries; in self-attention also keys and values, side by side */
    norm norm;
    int32_t heads, groups, width;
    float scale;        /* of the scores */
    const float *turns; /* (positions, D), cosines before sines, of rotary positions; or NULL */
    const distances *bias; /* or NULL */
} attention;

/* What may stand in the place of the decoder's self-attention: see recurrence.c. */
typedef struct {
    linear in; /* x and gates, side by side; in.packed = NULL if there is none */
    norm norm;
} recurrence;

/* The feed-forward network. */
typedef struct {
    linear up, gate, down; /* gate.packed = NULL if there is none */
    norm norm;
    int32_t activation;
} feed;

/* Keys and values: those of group g in slot s of row r are the D numbers from
 * r * row_stride + g * group_stride + s * slot_stride on. Pages are one row for all. */
typedef struct {
    float *keys, *values;
    int64_t rows, row_stride, group_stride, slot_stride;
} memory;

/* Which slots the rows read, in the order of their positions: the first `columns`, or those of
 * `slots`; of these, those where `mask` is set. Several rows of a batch may share a line. */
typedef struct {
    int64_t lines, columns;
    const uint8_t *mask;  /* (lines, columns) or NULL */
    const int64_t *slots; /* (lines, slots_stride) or NULL */
    int64_t slots_stride;
} readable;

/* The same as lists. */
typedef struct {
    int64_t lines, columns;
    int32_t *slots;   /* (lines, columns), of which the first `lengths` count */
    int32_t *lengths; /* (lines,) */
} reading;

/* Room for results that are needed for a while. */
typedef struct {
    char *next; /* NULL: nothing is reserved, only counted */
    int64_t size;
} arena;

void *reserve(arena *room, int64_t bytes);

int64_t product_work(int64_t rows, int64_t inputs);
void product(const linear *w, const float *x, int64_t rows, const after *then, float *y,
             void *work);

void normalise(const norm *n, const float *x, int64_t rows, int64_t dim, float *y);
void list_slots(const readable *from, reading *to);
void rotate(const attention *a, int64_t heads, int64_t position, float *x);
void attend(const attention *a, const float *queries, int64_t stride, int64_t rows,
            const memory *store, const reading *read, const int64_t *positions,
            int64_t positions_step, float *out, float *scores);
void recur(const float *x, int64_t rows, int64_t dim, float *c, float *y);

#endif
