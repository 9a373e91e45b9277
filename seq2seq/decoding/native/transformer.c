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

static int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

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

/* Ids and positions come from outside: nothing is read at one that its table lacks. */
static int64_t check_ids(const Stack *s, int64_t rows, const int64_t *tokens,
                         const int64_t *positions, int64_t positions_stride) {
    for (int64_t r = 0; r < rows; r++) {
        const int64_t token = tokens[r], position = positions[r * positions_stride];
        if (token < 0 || token >= s->vocab_size) return -BAD_TOKEN;
        if (position < 0 || position >= s->max_positions) return -BAD_POSITION;
    }
    return NO_ERROR;
}

static void embed(const Stack *s, const int64_t *tokens, const int64_t *positions, int64_t rows,
                  float *x) {
    const float *places = s->position_embedding;
    for (int64_t r = 0; r < rows; r++) {
        const float *token = s->token_embedding + tokens[r] * s->dim;
        const float *place = places ? places + positions[r] * s->dim : 0;
        for (int64_t i = 0; i < s->dim; i++)
            *x++ = token[i] * s->embedding_scale + (place ? place[i] : 0);
    }
}

void apply_norm(const Norm *norm, const float *x, int64_t rows, int64_t dim, float *y) {
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
        const Epilogue nothing = {.activation = NO_ACTIVATION};
        linear_forward(&ffn->gate, y, rows, &nothing, b->gates, b->workspace);
        up.gate = b->gates;
    }
    linear_forward(&ffn->up, y, rows, &up, b->hidden, b->workspace);
    add_residual(s, &ffn->norm, &ffn->down, b->hidden, x, rows, b);
}

/* Queries, in self-attention with keys and values beside them, with their positions. */
static void project_qkv(const Stack *s, const Attention *a, const float *x, int64_t rows,
                        const int64_t *positions, const Buffers *b) {
    const Epilogue nothing = {.activation = NO_ACTIVATION};
    const float *y = pre_norm(s, &a->norm, x, rows, b);
    linear_forward(&a->in_proj, y, rows, &nothing, b->qkv, b->workspace);
    if (!a->rope_table) return;
    for (int64_t r = 0; r < rows; r++) {
        float *heads = b->qkv + r * a->in_proj.out_features;
        apply_rope(a, a->n_heads + a->n_kv_heads, positions[r], heads);
    }
}

/* A step of those rows that are computed. */
typedef struct {
    LiveRows live;
    const int64_t *tokens, *positions; /* (live,) */
} LiveStep;

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

/* Attention of queries to a cache, and the rest of the sub-layer. */
static void attend_cache(const Stack *s, const Attention *a, const LiveStep *step,
                         const KVCache *cache, const KVIndex *index, float *x, const Buffers *b) {
    attend(a, b->qkv, a->in_proj.out_features, &step->live, cache, index, step->positions,
           b->context, b->scores);
    add_residual(s, &a->norm, &a->out_proj, b->context, x, step->live.count, b);
}

static void self_attention_layer(const Stack *s, const Attention *a, const LiveStep *step,
                                 const KVCache *cache, const KVIndex *index, float *x,
                                 const Buffers *b) {
    project_qkv(s, a, x, step->live.count, step->positions, b);
    write_cache(a, &step->live, cache, index, b->qkv);
    attend_cache(s, a, step, cache, index, x, b);
}

static void cross_attention_layer(const Stack *s, const Attention *a, const LiveStep *step,
                                  const KVCache *cache, const KVIndex *index, float *x,
                                  const Buffers *b) {
    project_qkv(s, a, x, step->live.count, step->positions, b);
    attend_cache(s, a, step, cache, index, x, b);
}

/* The recurrent unit in the place of self-attention; its states c are (rows, dim). */
static void ssru_layer(const Stack *s, const SSRU *ssru, const LiveRows *live, float *c, float *x,
                       const Buffers *b) {
    const Epilogue nothing = {.activation = NO_ACTIVATION};
    const float *y = pre_norm(s, &ssru->norm, x, live->count, b);
    linear_forward(&ssru->in_proj, y, live->count, &nothing, b->qkv, b->workspace);
    for (int64_t i = 0; i < live->count; i++)
        ssru_step(b->qkv + i * 2 * s->dim, s->dim, c + live_row(live, i) * s->dim, x + i * s->dim);
    post_norm(s, &ssru->norm, x, live->count);
}

/* The rows whose tokens are not `pad`, next to each other; none if they do not fit. */
static LiveStep gather_live(const DecodeStep *step, Arena *arena, int64_t size) {
    int64_t *rows = arena_alloc(arena, step->rows * 8), count = 0;
    int64_t *tokens = arena_alloc(arena, step->rows * 8);
    int64_t *positions = arena_alloc(arena, step->rows * 8);
    for (int64_t r = 0; r < step->rows && arena->size <= size; r++)
        if (step->tokens[r] != step->pad) {
            rows[count] = r, tokens[count] = step->tokens[r];
            positions[count++] = step->positions[r * step->positions_stride];
        }
    return (LiveStep){{count, step->rows, rows}, tokens, positions};
}

/* x (live, dim) -> (rows, dim), in place, with zeros in the others. */
static void spread_rows(const LiveRows *live, int64_t dim, float *x) {
    int64_t i = live->count - 1;
    for (int64_t r = live->total - 1; r > i; r--)
        if (i >= 0 && live->rows[i] == r)
            memcpy(x + r * dim, x + i-- * dim, (size_t)dim * sizeof *x);
        else
            memset(x + r * dim, 0, (size_t)dim * sizeof *x);
}

int64_t s2s_decode(const Stack *s, const DecodeStep *step, float *hidden, void *workspace,
                   int64_t size) {
    const int64_t rows = step->rows;
    const int64_t error =
        check_ids(s, rows, step->tokens, step->positions, step->positions_stride);
    if (error) return error;

    /* Scratch memory. */
    Arena arena = {workspace, 0};
    KVIndex self_index = alloc_kv_index(&arena, &step->self_view);
    KVIndex cross_index = alloc_kv_index(&arena, &step->cross_view);
    const int64_t max_length = max_of(step->self_view.length, step->cross_view.length);
    const Buffers b = alloc_buffers(&arena, s, rows, max_length);
    const LiveStep live = gather_live(step, &arena, size);
    if (arena.size > size) return arena.size;

    /* What each row reads, the same in all layers. */
    build_kv_index(&step->self_view, &self_index);
    build_kv_index(&step->cross_view, &cross_index);

    /* Tokens and positions -> vectors. */
    embed(s, live.tokens, live.positions, live.live.count, hidden);

    for (int32_t i = 0; i < s->n_layers; i++) {
        const Layer *l = s->layers + i;
        if (l->ssru.in_proj.panels)
            ssru_layer(s, &l->ssru, &live.live, step->ssru_states[i], hidden, &b);
        else
            self_attention_layer(s, &l->self_attn, &live, step->self_caches + i, &self_index,
                                 hidden, &b);
        cross_attention_layer(s, &l->cross_attn, &live, step->cross_caches + i, &cross_index,
                              hidden, &b);
        ffn_layer(s, &l->ffn, hidden, live.live.count, &b);
    }
    apply_norm(&s->final_norm, hidden, live.live.count, s->dim, hidden);
    spread_rows(&live.live, s->dim, hidden);
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
    embed(s, batch->tokens, batch->positions, batch->rows, hidden);
    for (int32_t i = 0; i < s->n_layers; i++) {
        encoder_attention_layer(s, &s->layers[i].self_attn, batch, index, hidden, b);
        ffn_layer(s, &s->layers[i].ffn, hidden, batch->rows, b);
    }
    apply_norm(&s->final_norm, hidden, batch->rows, s->dim, hidden);
}

int64_t s2s_encode(const Stack *s, const EncodeBatch *batch, float *hidden, void *workspace,
                   int64_t size) {
    const int64_t rows = batch->rows, most = max_of(ENCODE_ROWS, batch->max_length);
    const int64_t error = check_ids(s, rows, batch->tokens, batch->positions, 1);
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

/* The best outputs of the head for each row, and their log-probabilities. */
int64_t s2s_topk(const Linear *head, const float *hidden, int64_t rows, const TopK *topk,
                 void *workspace, int64_t size) {
    Arena arena = {workspace, 0};
    Epilogue epilogue = {.topk = topk};
    const int64_t error = topk->shortlist ? check_lists(head, topk->shortlist, rows) : NO_ERROR;
    if (error) return error;
    epilogue.max = arena_alloc(&arena, rows * (int64_t)sizeof(float));
    epilogue.sum_exp = arena_alloc(&arena, rows * (int64_t)sizeof(float));
    void *rest = arena_alloc(&arena, linear_workspace(rows, head->in_features));
    if (arena.size > size) return arena.size;
    if (topk->shortlist) shortlist_forward(head, hidden, rows, &epilogue, rest);
    else linear_forward(head, hidden, rows, &epilogue, 0, rest);
    for (int64_t r = 0; r < rows; r++) {
        const float log_sum = epilogue.max[r] + logf(epilogue.sum_exp[r]);
        for (int64_t i = 0; i < topk->k; i++) topk->log_probs[r * topk->k + i] -= log_sum;
    }
    return arena.size;
}
