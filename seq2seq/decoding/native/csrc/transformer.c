/* The encoder of a Transformer, and a step of its decoder. */
#include "kernels.h"
#include <math.h>

/* The buffers of a batch of rows. */
typedef struct {
    float *normed;   /* (row, dim), of a sub-layer's input */
    float *qkv;      /* (row, head, head_dim), queries before keys and values; or an SSRU's input */
    float *context;  /* (row, head, head_dim), what attention read */
    float *hidden;   /* (row, feature of the feed-forward network) */
    float *gates;    /* the same */
    float *scores;   /* (slot,), of one query and head, and a vector more */
    void *workspace; /* of linear maps */
} Buffers;

static Buffers alloc_buffers(Arena *arena, const Stack *s, int64_t rows, int64_t max_length) {
    int64_t qkv = s->dim, hidden = s->dim;
    for (int32_t i = 0; i < s->n_layers; i++) {
        qkv = max_of(qkv, s->layers[i].self_attn.in_proj.out_features);
        qkv = max_of(qkv, s->layers[i].ssru.in_proj.out_features);
        hidden = max_of(hidden, s->layers[i].ffn.up.out_features);
    }
    Buffers b;
    b.normed = alloc_floats(arena, rows, s->dim);
    b.qkv = alloc_floats(arena, rows, qkv);
    b.context = alloc_floats(arena, rows, s->dim);
    b.hidden = alloc_floats(arena, rows, hidden);
    b.gates = alloc_floats(arena, rows, hidden);
    b.scores = alloc_floats(arena, 1, max_length + LANES);
    b.workspace = arena_alloc(arena, linear_workspace(rows, max_of(hidden, qkv)));
    return b;
}

/* x (rows, dim) -> y (rows, dim), which may be x. */
static void apply_norm(const Norm *norm, const float *x, int64_t rows, int64_t dim, float *y) {
    if (norm->kind == NO_NORM) {
        if (x != y) memcpy(y, x, (size_t)(rows * dim) * sizeof *x);
        return;
    }
    for (int64_t r = 0; r < rows; r++, x += dim, y += dim) {
        vec sum = broadcast(0), squares = broadcast(0);
        if (norm->kind == LAYER_NORM)
            for (int64_t i = 0; i < dim; i += LANES) sum += load_partial(x + i, dim - i);
        const float mean = reduce_sum(sum) / (float)dim;
        for (int64_t i = 0; i < dim; i += LANES) {
            vec centred = load_partial(x + i, dim - i) - mean;
            for (int64_t j = dim - i; j < LANES; j++) centred[j] = 0;
            squares += centred * centred;
        }
        const float variance = reduce_sum(squares) / (float)dim;
        /* Numbers too large to be squared: as on torch, what follows is not finite. */
        const int overflows = norm->kind == LAYER_NORM && !isfinite(variance);
        const float scale = overflows ? NAN : 1 / sqrtf(variance + norm->epsilon);
        for (int64_t i = 0; i < dim; i += LANES) {
            const vec weight = load_partial(norm->weight + i, dim - i);
            vec v = (load_partial(x + i, dim - i) - mean) * scale * weight;
            if (norm->bias) v += load_partial(norm->bias + i, dim - i);
            store_partial(y + i, v, dim - i);
        }
    }
}

/* The input of a sub-layer: x (rows, dim) itself, or its norm. */
static const float *pre_norm(const Stack *s, const Norm *norm, const float *x, int64_t rows,
                             const Buffers *b) {
    if (!s->is_pre_norm) return x;
    apply_norm(norm, x, rows, s->dim, b->normed);
    return b->normed;
}

static void post_norm(const Stack *s, const Norm *norm, float *x, int64_t rows) {
    if (!s->is_pre_norm) apply_norm(norm, x, rows, s->dim, x);
}

/* x += the last map of a sub-layer, of y. */
static void add_residual(const Stack *s, const Norm *norm, const Linear *out_proj, const float *y,
                         float *x, int64_t rows, const Buffers *b) {
    const Epilogue add = {.residual = x};
    linear_forward(out_proj, y, rows, &add, x, b->workspace);
    post_norm(s, norm, x, rows);
}

static void ffn_layer(const Stack *s, const FeedForward *ffn, float *x, int64_t rows,
                      const Buffers *b) {
    const float *y = pre_norm(s, &ffn->norm, x, rows, b);
    Epilogue up = {.activation = ffn->activation};
    if (ffn->gate.panels) {
        linear_forward(&ffn->gate, y, rows, &NO_EPILOGUE, b->gates, b->workspace);
        up.gate = b->gates;
    }
    linear_forward(&ffn->up, y, rows, &up, b->hidden, b->workspace);
    add_residual(s, &ffn->norm, &ffn->down, b->hidden, x, rows, b);
}

/* Queries, in self-attention with keys and values beside them, with their positions. */
static void project_qkv(const Stack *s, const Attention *a, const float *x, int64_t rows,
                        const int64_t *positions, const Buffers *b) {
    const float *y = pre_norm(s, &a->norm, x, rows, b);
    linear_forward(&a->in_proj, y, rows, &NO_EPILOGUE, b->qkv, b->workspace);
    if (!a->rope_table) return;
    for (int64_t r = 0; r < rows; r++) {
        float *heads = b->qkv + r * a->in_proj.out_features;
        apply_rope(a, a->n_heads + a->n_kv_heads, positions[r], heads);
    }
}

/* Writes the new keys and values of each row to the last slot that it reads. */
static void write_cache(const Attention *a, const LiveRows *live, const KVCache *cache,
                        const KVIndex *index, const float *qkv) {
    const int64_t D = a->head_dim, G = a->n_kv_heads;
    for (int64_t i = 0; i < live->count; i++) {
        const float *keys = qkv + i * a->in_proj.out_features + a->n_heads * D;
        const float *values = keys + G * D;
        const int64_t r = live_row(live, i);
        const int64_t slot = index->slots[r * index->capacity + index->lengths[r] - 1];
        const int64_t start = cache_offset(cache, r, live->total) + slot * cache->slot_stride;
        for (int64_t g = 0; g < G; g++) {
            const int64_t at = start + g * cache->head_stride;
            memcpy(cache->keys + at, keys + g * D, (size_t)D * sizeof(float));
            memcpy(cache->values + at, values + g * D, (size_t)D * sizeof(float));
        }
    }
}

/* Attention to a cache, in self-attention with the new tokens' keys and values. */
static void attention_layer(const Stack *s, const Attention *a, int is_self, const LiveStep *step,
                            const KVCache *cache, const KVIndex *index, float *x,
                            const Buffers *b) {
    project_qkv(s, a, x, step->live.count, step->positions, b);
    if (is_self) write_cache(a, &step->live, cache, index, b->qkv);
    attend(a, b->qkv, a->in_proj.out_features, &step->live, cache, index, step->positions,
           b->context, b->scores);
    add_residual(s, &a->norm, &a->out_proj, b->context, x, step->live.count, b);
}

/* The recurrent unit in the place of self-attention; its states c are (rows, dim). */
static void ssru_layer(const Stack *s, const SSRU *ssru, const LiveRows *live, float *c, float *x,
                       const Buffers *b) {
    const float *y = pre_norm(s, &ssru->norm, x, live->count, b);
    linear_forward(&ssru->in_proj, y, live->count, &NO_EPILOGUE, b->qkv, b->workspace);
    for (int64_t i = 0; i < live->count; i++)
        ssru_step(b->qkv + i * 2 * s->dim, s->dim, c + live_row(live, i) * s->dim, x + i * s->dim);
    post_norm(s, &ssru->norm, x, live->count);
}

int64_t transformer_step(const Stack *s, const DecodeStep *step, const LiveStep *live, float *x,
                         Arena arena, int64_t size) {
    const int64_t rows = live->live.count;
    const int64_t max_length = max_of(step->self_view.length, step->cross_view.length);
    const Buffers b = alloc_buffers(&arena, s, step->rows, max_length);
    if (arena.size > size) return arena.size;

    embed(&s->embedding, s->dim, rows, live->tokens, live->positions, x);
    for (int32_t i = 0; i < s->n_layers; i++) {
        const Layer *l = s->layers + i;
        if (l->ssru.in_proj.panels)
            ssru_layer(s, &l->ssru, &live->live, step->states[i].values, x, &b);
        else
            attention_layer(s, &l->self_attn, 1, live, step->self_caches + i, &live->self_index, x,
                            &b);
        attention_layer(s, &l->cross_attn, 0, live, step->cross_caches + i, &live->cross_index, x,
                        &b);
        ffn_layer(s, &l->ffn, x, rows, &b);
    }
    apply_norm(&s->final_norm, x, rows, s->dim, x);
    return arena.size;
}

/* Self-attention within each sentence: keys and values are read where they are, beside queries. */
static void encoder_attention_layer(const Stack *s, const Attention *a, const EncodeBatch *batch,
                                    KVIndex *index, float *x, const Buffers *b) {
    const int64_t stride = a->in_proj.out_features;
    project_qkv(s, a, x, batch->rows, batch->positions, b);
    int64_t first = 0;
    for (int64_t n = 0; n < batch->sentences; first += batch->lengths[n++]) {
        const int64_t length = batch->lengths[n];
        float *queries = b->qkv + first * stride, *keys = queries + a->n_heads * a->head_dim;
        float *values = keys + a->n_kv_heads * a->head_dim;
        const KVCache cache = {keys, values, 1, 0, a->head_dim, stride, 0};
        *index->lengths = (int32_t)length;
        const LiveRows all = {length, length, 0};
        attend(a, queries, stride, &all, &cache, index, batch->positions + first,
               b->context + first * s->dim, b->scores);
    }
    add_residual(s, &a->norm, &a->out_proj, b->context, x, batch->rows, b);
}

/* Sentences are encoded a few at a time, as many as have this many tokens together, or one: scratch
 * memory stays small, and in a cache. */
enum { ENCODE_ROWS = 480 };

static void encode_sentences(const Stack *s, const EncodeBatch *batch, KVIndex *index,
                             float *hidden, const Buffers *b) {
    embed(&s->embedding, s->dim, batch->rows, batch->tokens, batch->positions, hidden);
    for (int32_t i = 0; i < s->n_layers; i++) {
        encoder_attention_layer(s, &s->layers[i].self_attn, batch, index, hidden, b);
        ffn_layer(s, &s->layers[i].ffn, hidden, batch->rows, b);
    }
    apply_norm(&s->final_norm, hidden, batch->rows, s->dim, hidden);
}

int64_t s2s_encode(const Stack *s, const EncodeBatch *batch, float *hidden, void *workspace,
                   int64_t size) {
    const int64_t rows = batch->rows, most = max_of(ENCODE_ROWS, batch->max_length);
    const int64_t error = check_ids(&s->embedding, rows, batch->tokens, batch->positions, 1);
    if (error) return error;

    Arena arena = {workspace, 0};
    const KVView all = {1, batch->max_length, 0, 0, 0};
    KVIndex index = alloc_kv_index(&arena, &all);
    const Buffers b = alloc_buffers(&arena, s, rows < most ? rows : most, batch->max_length);
    if (arena.size > size) return arena.size;

    build_kv_index(&all, &index);
    const int64_t *next = batch->lengths, *end = next + batch->sentences;
    EncodeBatch part = {0, 0, batch->max_length, batch->tokens, batch->positions, 0};
    for (; next < end; next += part.sentences) {
        part.rows = *next, part.sentences = 1, part.lengths = next;
        while (next + part.sentences < end && part.rows + next[part.sentences] <= ENCODE_ROWS)
            part.rows += next[part.sentences++];
        encode_sentences(s, &part, &index, hidden, &b);
        hidden += part.rows * s->dim, part.tokens += part.rows, part.positions += part.rows;
    }
    return arena.size;
}
