/* Random models and batches through all of the C, in memory of exactly the size it is told: for
 * AddressSanitizer and UndefinedBehaviorSanitizer. Each row must be what it is alone, bit by bit.
 * Arguments: the count of models, and a seed. */
#include "native_fuzz.h"

static uint64_t state;
static void *blocks[100000];
static int held;

int64_t draw(int64_t least, int64_t most) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return least + (int64_t)((state >> 33) % (uint64_t)(most - least + 1));
}

void *get(int64_t bytes) {
    void *p = malloc((size_t)(bytes > 0 ? bytes : 1));
    if (!p || held == 100000) exit(9);
    return blocks[held++] = p;
}

void *copy(const void *x, int64_t bytes) {
    return x ? memcpy(get(bytes), x, (size_t)bytes) : 0;
}

float *numbers(int64_t count) {
    float *x = get(count * 4);
    for (int64_t i = 0; i < count; i++) x[i] = (float)draw(-1000, 1000) / 1000;
    return x;
}

Linear map(int64_t inputs, int64_t outputs, int is_int8) {
    const int64_t columns = s2s_panel_width(), padded = (outputs + columns - 1) / columns * columns;
    Linear l = {(int32_t)inputs, (int32_t)outputs, is_int8, 0, 0, 0, draw(0, 1) ? numbers(outputs) : 0, 0};
    if (is_int8) {
        int8_t *w = get(inputs * outputs), *packed = get(padded * ((inputs + 3) / 4 * 4));
        int32_t *sums = get(outputs * 4);
        for (int64_t i = 0; i < inputs * outputs; i++) w[i] = (int8_t)draw(-127, 127);
        s2s_pack_int8(w, inputs, outputs, packed, sums);
        float *scales = numbers(outputs);
        for (int64_t i = 0; i < outputs; i++) scales[i] /= 500;
        l.panels = packed, l.weight_sums = sums, l.scales = scales;
        l.input_scale = (float)(draw(0, 1) * draw(1, 1000)) / 10000;
    } else {
        float *w = numbers(inputs * outputs), *packed = get(padded * inputs * 4);
        s2s_pack_float32(w, inputs, outputs, packed);
        l.panels = packed;
    }
    return l;
}

static Norm any_norm(int64_t dim) {
    const Norm n = {(int32_t)draw(0, 2), 1e-5f, numbers(dim), draw(0, 1) ? numbers(dim) : 0};
    return n;
}

static Attention any_attention(int64_t dim, int64_t heads, int to_itself, int is_int8, int64_t T) {
    Attention a = {0};
    int64_t groups = heads;
    while (draw(0, 1) && groups > 1) groups = 1;
    a.n_heads = (int32_t)heads, a.n_kv_heads = (int32_t)groups, a.head_dim = (int32_t)(dim / heads);
    a.in_proj = map(dim, to_itself ? dim + 2 * groups * a.head_dim : dim, is_int8);
    a.out_proj = map(dim, dim, is_int8);
    a.norm = any_norm(dim), a.scale = 0.5f;
    if (to_itself && a.head_dim % 2 == 0 && draw(0, 1)) a.rope_table = numbers(T * a.head_dim);
    if (to_itself && draw(0, 1)) {
        const int64_t distances = heads * (2 * T + 1);
        const float *keys = draw(0, 1) ? numbers(distances * a.head_dim) : 0;
        const RelativeBias any = {numbers(distances), keys, 2 * T + 1};
        RelativeBias *held = get(sizeof any);
        *held = any, a.relative_bias = held;
    }
    return a;
}

Stack any_stack(int64_t T, int64_t words, int is_recurrent) {
    const int64_t heads = draw(1, 4), dim = heads * draw(1, 40), hidden = draw(1, 200);
    const Embedding e = {numbers(words * dim), 1.5f, draw(0, 1) ? numbers(T * dim) : 0, words, T};
    Stack s = {(int32_t)dim, (int32_t)draw(1, 3), (int32_t)draw(0, 1), 0, any_norm(dim), e};
    Layer *l = get(s.n_layers * (int64_t)sizeof *l);
    const int is_int8 = (int)draw(0, 1);
    for (int i = 0; i < s.n_layers; i++) {
        const SSRU unit = {is_recurrent ? map(dim, 2 * dim, is_int8) : (Linear){0}, any_norm(dim)};
        l[i].ssru = unit;
        l[i].self_attn = is_recurrent ? (Attention){0} : any_attention(dim, heads, 1, is_int8, T);
        l[i].cross_attn = any_attention(dim, heads, 0, is_int8, T);
        const FeedForward f = {map(dim, hidden, is_int8), draw(0, 1) ? map(dim, hidden, is_int8) : (Linear){0},
                        map(hidden, dim, is_int8), any_norm(dim), (int32_t)draw(0, 4)};
        l[i].ffn = f;
    }
    s.layers = l;
    return s;
}

KVCache any_cache(int64_t rows, int64_t heads, int64_t slots, int64_t D) {
    const int64_t left = draw(0, 1) * draw(1, 4), size = (rows + left) * heads * slots * D;
    KVCache c = {numbers(size), numbers(size), rows, heads * slots * D, slots * D, D, 0};
    if (left == 0) return c;
    int64_t *kept = get(rows * 8), skipped = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (skipped < left) skipped += draw(0, 1);
        kept[i] = i + skipped;
    }
    c.kept = kept;
    return c;
}

/* One row of a cache, with nothing beside it. */
static KVCache row_of(const KVCache *c, int64_t row) {
    const int64_t at = (c->kept ? c->kept[row] : row) * c->row_stride, bytes = c->row_stride * 4;
    const KVCache alone = {copy(c->keys + at, bytes), copy(c->values + at, bytes), 1,
                           c->row_stride, c->head_stride, c->slot_stride, 0};
    return alone;
}

/* One step of `beams` rows for each of some sentences: with a row each, in slabs, in pages, or in the
 * states of recurrent units. */
static void try_step(const Stack *s, int64_t T, int64_t words) {
    const int64_t beams = draw(1, 5), B = draw(1, beams > 1 ? 20 : 80), N = B * beams;
    const int64_t S = draw(1, T), length = draw(1, T), pool = N * length + 3;
    const int64_t kind = s->layers[0].ssru.in_proj.panels ? 3 : draw(0, 2);
    const int64_t D = s->dim / s->layers[0].cross_attn.n_heads, dim = s->dim;
    int64_t *tokens = get(N * 8), *positions = get(N * 8), *slots = get(N * length * 8);
    uint8_t *visible = get(N * length * beams), *real = get(B * S);
    KVCache pasts[3], sources[3];
    RowState states[3], before[3]; /* before: the last row */
    for (int64_t r = 0; r < N; r++) {
        tokens[r] = draw(0, words - 1);
        positions[r] = kind >= 2 ? draw(0, length - 1) : length - 1;
        for (int64_t t = 0; t < length; t++) slots[r * length + t] = t * N + r;
        /* Any beam's older tokens, and the row's own last one. */
        memset(visible + r * length * beams, 0, (size_t)(length * beams));
        for (int64_t t = 0; t < length; t++)
            visible[r * length * beams + t * beams + (t < length - 1 ? draw(0, beams - 1) : r % beams)] = 1;
    }
    uint8_t *some = get(N * length); /* of pages: rows of different ages */
    for (int64_t i = 0; i < N * length; i++) some[i] = i % length <= positions[i / length];
    for (int64_t i = 0; i < B * S; i++) real[i] = (uint8_t)(i % S == 0 || draw(0, 3) > 0);
    for (int i = 0; i < s->n_layers; i++) {
        const int64_t G = s->layers[i].self_attn.n_kv_heads, C = s->layers[i].cross_attn.n_kv_heads;
        const int64_t entries = kind == 1 ? length * beams : length;
        const int64_t rows = kind == 0 ? N : kind == 1 ? B : 1, size = kind == 2 ? pool : entries;
        pasts[i] = any_cache(rows, G, size, D), sources[i] = any_cache(B, C, S, D);
        states[i] = (RowState){numbers(N * dim), dim};
        before[i] = (RowState){copy(states[i].values + (N - 1) * dim, dim * 4), dim};
    }
    const Decoder decoder = {s, 0};
    DecodeStep batch = {N, draw(0, 1) ? 0 : -1, tokens, positions, 1, {N, length, 0, 0, 0}, {B, S, real, 0, 0}, pasts, sources, states, s->n_layers};
    if (kind == 1) batch.self_view.length = length * beams, batch.self_view.mask = visible;
    if (kind == 2) batch.self_view.mask = some, batch.self_view.slots = slots, batch.self_view.slots_stride = length;
    if (kind == 3) batch.self_view = (KVView){0}, batch.self_caches = 0;
    else batch.states = 0, batch.states_count = 0;
    float *hidden = get(N * dim * 4), *alone = get(dim * 4);
    int64_t size = s2s_decode(&decoder, &batch, hidden, 0, 0);
    s2s_decode(&decoder, &batch, hidden, get(size), size);
    if (kind == 0 || kind == 3) { /* the last row once more: it writes what it has written */
        const int64_t r = N - 1;
        batch.rows = 1, batch.tokens += r, batch.positions += r;
        batch.self_view.rows = kind == 0, batch.cross_view.rows = 1, batch.cross_view.mask += r / beams * S;
        if (kind == 3) batch.states = before;
        for (int i = 0; i < s->n_layers; i++) {
            if (kind == 0) pasts[i] = row_of(pasts + i, r);
            sources[i] = row_of(sources + i, r / beams);
        }
        size = s2s_decode(&decoder, &batch, alone, 0, 0);
        s2s_decode(&decoder, &batch, alone, get(size), size);
        int differs = memcmp(alone, hidden + r * dim, (size_t)dim * 4);
        for (int i = 0; kind == 3 && i < s->n_layers; i++)
            differs |= memcmp(before[i].values, states[i].values + r * dim, (size_t)dim * 4);
        if (differs) printf("a row differs\n"), exit(1);
    }
}

RecurrentDecoder any_recurrent(int64_t words) {
    const int64_t heads = draw(1, 4), dim = heads * draw(1, 40);
    RecurrentDecoder d = {0};
    d.dim = (int32_t)dim, d.n_layers = (int32_t)draw(1, 3);
    d.is_lstm = (int32_t)draw(0, 1), d.is_input_feeding = (int32_t)draw(0, 1);
    const int64_t gates = (d.is_lstm ? 4 : 3) * dim, is_int8 = draw(0, 1);
    Cell *cells = get(d.n_layers * (int64_t)sizeof *cells);
    for (int i = 0; i < d.n_layers; i++) {
        const Cell cell = {map(i ? dim : 2 * dim, gates, (int)is_int8), map(dim, gates, 0)};
        cells[i] = cell;
    }
    d.cells = cells;
    d.attention.n_heads = d.attention.n_kv_heads = (int32_t)heads;
    d.attention.head_dim = (int32_t)(dim / heads), d.attention.scale = 0.5f;
    if (draw(0, 1)) d.attention.in_proj = map(dim, dim, (int)is_int8);
    if (draw(0, 1)) d.attention.out_proj = map(dim, dim, (int)is_int8);
    if (draw(0, 1)) d.score_proj = map(dim, dim, 0);
    if (draw(0, 1)) d.attention.score_vector = numbers(dim);
    d.readout = map((d.is_input_feeding ? 2 : 3) * dim, dim, (int)is_int8);
    d.embedding = (Embedding){numbers(words * dim), 1.5f, 0, words, 0};
    return d;
}

/* One step of `beams` rows for each of some sentences, whose sources have a row each or are in pages;
 * then the last row once more, from the states that it had. */
static void try_recurrent_step(const RecurrentDecoder *d, int64_t T, int64_t words) {
    const int64_t beams = draw(1, 5), B = draw(1, 40), N = B * beams, S = draw(1, T), dim = d->dim;
    const int64_t L = d->n_layers, D = d->attention.head_dim, H = d->attention.n_heads, r = N - 1;
    const int in_pages = (int)draw(0, 1);
    const int64_t slots = in_pages ? B * S : S, sources = in_pages ? 1 : B;
    int64_t *tokens = get(N * 8), *positions = get(N * 8), *table = get(B * S * 8);
    uint8_t *real = get(B * S);
    for (int64_t i = 0; i < N; i++) tokens[i] = draw(0, words - 1), positions[i] = draw(-1000, 1000);
    for (int64_t i = 0; i < B * S; i++) table[i] = B * S - 1 - i, real[i] = (uint8_t)(i % S == 0 || draw(0, 3) > 0);
    float *values = numbers(sources * H * slots * D);
    const KVCache source = {draw(0, 1) ? numbers(sources * H * slots * D) : values, values, sources,
                            H * slots * D, slots * D, D, 0};
    const int count = 1 + d->is_lstm + d->is_input_feeding;
    RowState all[3], last[3]; /* last: the last row */
    for (int i = 0; i < count; i++) {
        const int64_t width = (i < 1 + d->is_lstm ? L : 1) * dim;
        all[i] = (RowState){numbers(N * width), width};
        last[i] = (RowState){copy(all[i].values + r * width, width * 4), width};
    }
    const Decoder decoder = {0, d};
    DecodeStep step = {.rows = N, .pad = draw(0, 1) ? 0 : -1, .tokens = tokens, .positions = positions, .positions_stride = 1,
                       .cross_view = {B, S, draw(0, 1) ? real : 0, in_pages ? table : 0, S},
                       .cross_caches = &source, .states = all, .states_count = count};
    float *hidden = get(N * dim * 4), *alone = get(dim * 4);
    int64_t size = s2s_decode(&decoder, &step, hidden, 0, 0);
    void *work = get(size);
    s2s_decode(&decoder, &step, hidden, work, size);
    const int64_t wrong[] = {-1, INT64_MAX, INT64_MIN, words}, token = tokens[r];
    for (int i = 0; i < 4; i++) {
        tokens[r] = wrong[i];
        if (s2s_decode(&decoder, &step, hidden, work, size) != -BAD_TOKEN) printf("not refused\n"), exit(1);
    }
    tokens[r] = token;
    step.rows = step.cross_view.rows = 1, step.tokens += r, step.positions += r, step.states = last;
    if (step.cross_view.mask) step.cross_view.mask += r / beams * S;
    if (in_pages) step.cross_view.slots += r / beams * S;
    const KVCache own = in_pages ? source : row_of(&source, r / beams);
    step.cross_caches = &own;
    size = s2s_decode(&decoder, &step, alone, 0, 0);
    s2s_decode(&decoder, &step, alone, get(size), size);
    int differs = memcmp(alone, hidden + r * dim, (size_t)dim * 4);
    for (int i = 0; i < count; i++)
        differs |= memcmp(last[i].values, all[i].values + r * last[i].width, (size_t)last[i].width * 4);
    if (differs) printf("a row of cells differs\n"), exit(1);
}

static void try_recurrent_encoder(int64_t T, int64_t words) {
    const int64_t B = draw(1, 9), width = draw(1, 40), dim = 2 * width, is_lstm = draw(0, 1);
    const int64_t gates = (is_lstm ? 4 : 3) * width, layers = draw(1, 3);
    BidirectionalLayer *all_layers = get(layers * (int64_t)sizeof *all_layers);
    for (int64_t i = 0; i < layers; i++) {
        const BidirectionalLayer layer = {map(dim, 2 * gates, 0), map(width, gates, 0), map(width, gates, 0)};
        all_layers[i] = layer;
    }
    const RecurrentEncoder e = {(int32_t)dim, (int32_t)layers, (int32_t)is_lstm, all_layers, {numbers(words * dim), 1.5f, 0, words, 0}};
    int64_t rows = 0, *lengths = get(B * 8);
    for (int64_t i = 0; i < B; i++) rows += lengths[i] = draw(1, T);
    int64_t *tokens = get(rows * 8);
    for (int64_t i = 0; i < rows; i++) tokens[i] = draw(0, words - 1);
    float *states = get(rows * dim * 4), *alone = get(lengths[B - 1] * dim * 4);
    const int64_t first = rows - lengths[B - 1];
    const EncodeBatch all = {rows, B, T, tokens, 0, lengths};
    const EncodeBatch last = {lengths[B - 1], 1, lengths[B - 1], tokens + first, 0, lengths + B - 1};
    const int64_t size = s2s_encode_recurrent(&e, &all, states, 0, 0), less = s2s_encode_recurrent(&e, &last, alone, 0, 0);
    s2s_encode_recurrent(&e, &all, states, get(size), size);
    s2s_encode_recurrent(&e, &last, alone, get(less), less);
    if (memcmp(alone, states + first * dim, (size_t)(lengths[B - 1] * dim) * 4)) printf("a sentence of cells differs\n"), exit(1);
    tokens[draw(0, rows - 1)] = draw(0, 1) ? words : -1;
    if (s2s_encode_recurrent(&e, &all, states, 0, 0) != -BAD_TOKEN) printf("not refused\n"), exit(1);
}

/* Ids and positions beyond the tables: the memory there is not the stack's. */
static void refuse(const Stack *s, const EncodeBatch *batch, float *states) {
    const int64_t row = draw(0, batch->rows - 1), size = s2s_encode(s, batch, states, 0, 0);
    void *work = get(size);
    const int64_t wrong[] = {-1, draw(0, 1) ? INT64_MAX : INT64_MIN, s->embedding.vocab_size, s->embedding.max_positions};
    for (int i = 0; i < 4; i++)
        for (int is_token = 0; is_token < 2; is_token++) {
            if (i == (is_token ? 3 : 2)) continue;
            int64_t *at = (int64_t *)(is_token ? batch->tokens : batch->positions) + row, before = *at;
            *at = wrong[i];
            const int64_t error = s2s_encode(s, batch, states, work, size);
            if (error != (is_token ? -BAD_TOKEN : -BAD_POSITION)) printf("not refused\n"), exit(1);
            *at = before;
        }
}

static void try_encoder(const Stack *s, int64_t T, int64_t words) {
    const int64_t B = draw(1, 9);
    int64_t rows = 0, *lengths = get(B * 8);
    for (int64_t i = 0; i < B; i++) rows += lengths[i] = draw(1, T);
    int64_t *tokens = get(rows * 8), *positions = get(rows * 8), row = 0;
    for (int64_t i = 0; i < B; i++)
        for (int64_t t = 0; t < lengths[i]; t++, row++) tokens[row] = draw(0, words - 1), positions[row] = t;
    float *states = get(rows * s->dim * 4), *alone = get(lengths[B - 1] * s->dim * 4);
    const EncodeBatch all = {rows, B, T, tokens, positions, lengths};
    const int64_t before = rows - lengths[B - 1];
    const EncodeBatch last = {lengths[B - 1], 1, T, tokens + before, positions + before, lengths + B - 1};
    const int64_t size = s2s_encode(s, &all, states, 0, 0), less = s2s_encode(s, &last, alone, 0, 0);
    s2s_encode(s, &all, states, get(size), size);
    s2s_encode(s, &last, alone, get(less), less);
    if (memcmp(alone, states + before * s->dim, (size_t)(lengths[B - 1] * s->dim) * 4)) printf("a sentence differs\n"), exit(1);
    refuse(s, &all, states);
}

Shortlist any_lists(const Linear *w, int64_t rows) {
    const int64_t count = draw(1, 9), width = draw(1, w->out_features);
    const int64_t units = w->is_int8 ? (w->in_features + 3) / 4 : w->in_features;
    int64_t *lengths = get(count * 8), *ids = get(count * width * 8), *of_rows = get(rows * 8);
    for (int64_t i = 0; i < count; i++) {
        lengths[i] = draw(1, width);
        const int64_t first = draw(0, w->out_features - lengths[i]);
        for (int64_t j = 0; j < width; j++) ids[i * width + j] = j < lengths[i] ? first + j : -1;
    }
    for (int64_t r = 0; r < rows; r++) of_rows[r] = draw(0, count - 1);
    return (Shortlist){numbers(w->out_features * units), count, width, lengths, ids, of_rows};
}

Constraints any_constraints(const Linear *w, int64_t rows) {
    Constraints c = {.outputs = w->out_features, .width = draw(0, 3)};
    int64_t *places = get(rows * 8);
    for (int64_t r = 0; r < rows; r++) places[r] = draw(0, 1) ? c.count++ : -1;
    uint8_t *banned = get(c.count * c.outputs);
    const int64_t share = draw(0, 3);
    for (int64_t i = 0; i < c.count * c.outputs; i++) banned[i] = draw(0, 3) < share;
    int64_t *required = get(c.count * c.width * 8);
    for (int64_t i = 0; i < c.count * c.width; i++) required[i] = draw(-1, c.outputs - 1);
    c.places = places, c.banned = banned, c.required = required;
    c.log_probs = get(c.count * c.width * 4);
    return c;
}

/* Each wrong number of constraints is refused. */
static void refuse_constraints(const Linear *w, const float *x, int64_t rows, TopK found) {
    Constraints wrong = any_constraints(w, rows);
    int64_t *places = (int64_t *)wrong.places, *required = (int64_t *)wrong.required;
    const int kind = (int)draw(0, 2);
    found.constraints = &wrong;
    if (kind == 0) wrong.outputs += draw(0, 1) ? 1 : -1;
    else if (kind == 1 || !wrong.count || !wrong.width) places[draw(0, rows - 1)] = draw(0, 1) ? -2 : wrong.count;
    else required[draw(0, wrong.count * wrong.width - 1)] = draw(0, 1) ? -2 : wrong.outputs;
    if (s2s_topk(w, x, rows, &found, 0, 0) != -BAD_LIST) printf("constraints not refused\n"), exit(1);
}

/* Rows that choose from lists; the last one also alone, and from a list that is none. */
static void try_lists(const Linear *w, const float *x, int64_t rows, TopK found) {
    const int64_t C = found.k;
    Shortlist lists = any_lists(w, rows);
    int64_t *of_rows = (int64_t *)lists.row_lists;
    found.shortlist = &lists;
    int64_t size = s2s_topk(w, x, rows, &found, 0, 0);
    s2s_topk(w, x, rows, &found, get(size), size);
    TopK alone = found;
    alone.log_probs = get(C * 4), alone.ids = get(C * 8), lists.row_lists += rows - 1;
    if (alone.no_eos) alone.no_eos += rows - 1;
    if (alone.forced) alone.forced += rows - 1;
    size = s2s_topk(w, x + (rows - 1) * w->in_features, 1, &alone, 0, 0);
    void *work = get(size);
    s2s_topk(w, x + (rows - 1) * w->in_features, 1, &alone, work, size);
    if (memcmp(alone.log_probs, found.log_probs + (rows - 1) * C, (size_t)C * 4) ||
        memcmp(alone.ids, found.ids + (rows - 1) * C, (size_t)C * 8))
        printf("a row with a list differs\n"), exit(1);
    int64_t *last = (int64_t *)lists.ids + lists.row_lists[0] * lists.width;
    int64_t *length = (int64_t *)lists.lengths + lists.row_lists[0];
    int64_t *wrong[] = {last, last, length, length, of_rows + rows - 1, of_rows + rows - 1};
    const int64_t values[] = {-1, w->out_features, 0, lists.width + 1, -1, lists.lists};
    for (int i = 0; i < 6; i++) {
        const int64_t before = *wrong[i];
        *wrong[i] = values[i];
        if (s2s_topk(w, x, 1, &alone, work, size) != -BAD_LIST) printf("not refused\n"), exit(1);
        *wrong[i] = before;
    }
}

static void try_head(void) {
    const int64_t rows = draw(1, 400), inputs = draw(1, 70), outputs = draw(3, 700);
    const Linear w = map(inputs, outputs, (int)draw(0, 1));
    const int64_t C = draw(1, outputs < 64 ? outputs : 64), never[] = {0, 1, 3};
    uint8_t *no_eos = get(rows);
    for (int64_t i = 0; i < rows; i++) no_eos[i] = (uint8_t)draw(0, 1);
    int64_t *forced = get(rows * 8);
    for (int64_t i = 0; i < rows; i++) forced[i] = draw(0, 1) ? draw(0, outputs - 1) : -1;
    const Constraints constraints = any_constraints(&w, rows);
    TopK found = {C, never, 3, 2, draw(0, 1) ? no_eos : 0, draw(0, 1) ? forced : 0, 0, &constraints,
                  get(rows * C * 4), get(rows * C * 8)};
    const float *x = numbers(rows * inputs);
    int64_t size = s2s_topk(&w, x, rows, &found, 0, 0);
    s2s_topk(&w, x, rows, &found, get(size), size);
    refuse_constraints(&w, x, rows, found);
    found.constraints = 0;
    size = s2s_topk(&w, x, rows, &found, 0, 0);
    s2s_topk(&w, x, rows, &found, get(size), size);
    try_lists(&w, x, rows, found);
}

int main(int count, char **arguments) {
    state = count > 2 ? strtoull(arguments[2], 0, 10) : 0;
    for (long i = count > 1 ? strtol(arguments[1], 0, 10) : 20; i > 0; i--) {
        const int64_t T = i % 8 ? draw(1, 30) : draw(1, 300), words = draw(1, 50);
        const Stack decoder = any_stack(T, words, (int)draw(0, 1)), encoder = any_stack(T, words, 0);
        try_step(&decoder, T, words);
        try_encoder(&encoder, T, words);
        try_head();
        try_search();
        try_decode_steps();
        const RecurrentDecoder cells = any_recurrent(words);
        try_recurrent_step(&cells, T, words);
        try_recurrent_encoder(T, words);
        while (held) free(blocks[--held]);
    }
    return 0;
}
