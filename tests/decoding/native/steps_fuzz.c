/* Random searches over random decoders through s2s_decode_steps, in memory of exactly the size it is
 * told. Each call must be what s2s_decode and advance_search in turn are, bit by bit. */
#include "search_fuzz.h"

/* A search, and all that its decoder reads and writes. */
typedef struct {
    Run run;
    DecodeStep step;
    KVCache caches[3];
    RowState states[3];
    float *hidden;
    int64_t cache_bytes[3], position, dim;
} Decoding;

static void stop(const char *name) { printf("%s of steps differ\n", name), exit(1); }

/* The entries of some tokens before this search, of any beam; then each row's own ones. */
static int64_t *any_entries(int64_t rows, int64_t K, int64_t past, int64_t length) {
    int64_t *entries = get(rows * length * 8);
    for (int64_t i = 0; i < rows * length; i++) {
        const int64_t row = i / length, t = i % length;
        entries[i] = t * K + (t < past ? draw(0, K - 1) : row % K);
    }
    return entries;
}

/* Before the first of `most` steps, after `past` tokens. */
static Decoding any_decoding(const Decoder *decoder, const Run *run, int64_t past, int64_t most) {
    const Stack *s = decoder->stack;
    const RecurrentDecoder *cells = decoder->cells;
    Decoding d = {.run = *run, .position = past, .dim = s ? s->dim : cells->dim};
    Search *search = &d.run.search;
    const int64_t K = search->beams, B = search->sentences, N = B * K, length = past + most, S = draw(1, 20);
    const int64_t D = s ? s->dim / s->layers[0].cross_attn.n_heads : cells->attention.head_dim;
    KVCache *sources = get(3 * (int64_t)sizeof *sources);
    int64_t *tokens = get(N * 8);
    for (int64_t r = 0; r < N; r++) tokens[r] = draw(0, (s ? &s->embedding : &cells->embedding)->vocab_size - 1);
    uint8_t *real = get(B * S);
    for (int64_t i = 0; i < B * S; i++) real[i] = (uint8_t)(i % S == 0 || draw(0, 3) > 0);
    const DecodeStep step = {.rows = N, .pad = draw(0, 3) ? 0 : -1, .tokens = tokens,
                             .cross_view = {B, S, draw(0, 1) ? real : 0, 0, 0}, .cross_caches = sources};
    d.step = step, d.hidden = get(N * d.dim * 4);
    memset(d.hidden, 0, (size_t)(N * d.dim) * 4);
    if (cells) {
        *sources = any_cache(B, cells->attention.n_heads, S, D);
        d.step.states_count = 1 + cells->is_lstm + cells->is_input_feeding;
    } else if (s->layers[0].ssru.in_proj.panels) {
        d.step.states_count = s->n_layers;
    }
    for (int i = 0; i < d.step.states_count; i++) {
        const int64_t width = (cells && i < 1 + cells->is_lstm ? cells->n_layers : 1) * d.dim;
        d.states[i] = (RowState){numbers(N * width), width};
    }
    for (int i = 0; s && i < s->n_layers; i++) {
        const int64_t G = s->layers[i].self_attn.n_kv_heads;
        sources[i] = any_cache(B, s->layers[i].cross_attn.n_kv_heads, S, D);
        if (d.step.states_count) continue;
        d.caches[i] = any_cache(B, G, length * K, D);
        d.cache_bytes[i] = (d.caches[i].kept ? d.caches[i].kept[B - 1] + 1 : B) * G * length * K * D * 4;
    }
    if (d.step.states_count) return d;
    d.step.self_view.rows = N;
    if (K == 1) return d;
    search->entries = any_entries(N, K, past, length), search->entries_stride = length;
    d.step.self_view.slots = search->entries, d.step.self_view.slots_stride = length;
    return d;
}

/* Describes its next step, as the caller of the C does before each call. */
static void describe(Decoding *d) {
    d->step.positions = &d->position, d->step.states = d->states;
    if (d->step.self_view.rows) d->step.self_caches = d->caches, d->step.self_view.length = d->position + 1;
    if (d->run.search.entries) d->run.search.entries_length = d->position + 1;
}

static void copy_decoding(const Decoding *from, Decoding *to) {
    const int64_t rows = from->step.rows;
    *to = *from, to->run = run_of(&from->run, 0, from->run.search.sentences);
    for (int i = 0; i < 3; i++) {
        to->caches[i].keys = copy(from->caches[i].keys, from->cache_bytes[i]);
        to->caches[i].values = copy(from->caches[i].values, from->cache_bytes[i]);
        to->states[i].values = copy(from->states[i].values, rows * from->states[i].width * 4);
    }
    to->hidden = copy(from->hidden, rows * from->dim * 4), to->step.tokens = copy(from->step.tokens, rows * 8);
    if (to->run.search.entries) to->step.self_view.slots = to->run.search.entries;
    describe(to);
}

static void compare_bytes(const char *name, const void *x, const void *y, int64_t bytes) {
    if (bytes && memcmp(x, y, (size_t)bytes)) stop(name);
}

/* What is remembered, and the states of the searches. */
static void compare_decodings(const Decoding *d, const Decoding *one) {
    for (int i = 0; i < 3; i++) {
        compare_bytes("keys", d->caches[i].keys, one->caches[i].keys, d->cache_bytes[i]);
        compare_bytes("values", d->caches[i].values, one->caches[i].values, d->cache_bytes[i]);
        compare_bytes("states", d->states[i].values, one->states[i].values, d->step.rows * d->states[i].width * 4);
    }
    compare_bytes("hidden states", d->hidden, one->hidden, d->step.rows * d->dim * 4);
    for (int64_t b = 0; b < d->run.search.sentences; b++) {
        const Run alone = run_of(&one->run, b, 1);
        compare_states(&d->run, &alone, b);
    }
}

/* What the last step gave. */
static void compare_outputs(const Run *run, const Run *one) {
    const StepOutput *out = &run->out, *other = &one->out;
    const int64_t N = run->search.sentences * run->search.beams, room = run->search.room;
    compare_ids("next tokens", out->next_tokens, other->next_tokens, N);
    if (!run->search.is_greedy) compare_ids("parents", out->parents, other->parents, N);
    compare_ids("moves", out->is_moved, other->is_moved, 1);
    compare_ids("counts of hypotheses", out->finished, other->finished, 1);
    compare_ids("sentences", out->finished_sentences, other->finished_sentences, out->finished[0]);
    compare("scores", out->finished_scores, other->finished_scores, out->finished[0]);
    for (int64_t i = 0; i < out->finished[0]; i++) {
        const int64_t n = run->search.length[out->finished_sentences[i]];
        compare_ids("hypotheses", out->finished_tokens + i * room, other->finished_tokens + i * room, n);
        compare("numbers", out->finished_logp + i * room, other->finished_logp + i * room, n);
    }
}

static int64_t call(const Decoder *decoder, const Linear *head, Decoding *d, int64_t most, void *work,
                    int64_t size) {
    describe(d);
    return s2s_decode_steps(decoder, &d->step, head, &d->run.topk, &d->run.search, &d->run.out, most,
                            d->hidden, work, size);
}

/* Rows go on with the states of their parents. */
static void fork_states(Decoding *d) {
    for (int i = 0; i < d->step.states_count; i++) {
        const int64_t width = d->states[i].width;
        const float *before = copy(d->states[i].values, d->step.rows * width * 4);
        for (int64_t r = 0; r < d->step.rows; r++)
            memcpy(d->states[i].values + r * width, before + d->run.out.parents[r] * width, (size_t)width * 4);
    }
}

/* One step by the functions that the call is made of. Returns: is it the last of a call? */
static int take_step(const Decoder *decoder, const Linear *head, Decoding *d) {
    Run *run = &d->run;
    const int64_t B = run->search.sentences;
    const uint8_t *before = copy(run->out.done, B);
    describe(d);
    int64_t size = s2s_decode(decoder, &d->step, d->hidden, 0, 0);
    s2s_decode(decoder, &d->step, d->hidden, get(size), size);
    size = advance_search(head, d->hidden, &run->topk, &run->search, &run->out, 0, 0);
    advance_search(head, d->hidden, &run->topk, &run->search, &run->out, get(size), size);
    if (!run->search.is_greedy) fork_states(d);
    d->step.tokens = run->out.next_tokens;
    return run->out.finished[0] || memcmp(before, run->out.done, (size_t)B);
}

/* What is wrong is refused, and nothing done. */
static void refuse(const Decoder *decoder, const Linear *head, Decoding *d, int64_t most, void *work,
                   int64_t size) {
    const int64_t row = draw(0, d->step.rows - 1);
    int64_t *token = (int64_t *)d->step.tokens + row, before = *token;
    *token = draw(0, 1) ? -1 : INT64_MAX;
    if (call(decoder, head, d, most, work, size) != -BAD_TOKEN) stop("refusals");
    *token = before;
    if (!d->run.topk.shortlist) return;
    int64_t *list = (int64_t *)d->run.topk.shortlist->row_lists + row, kept = *list;
    *list = draw(0, 1) ? -1 : d->run.topk.shortlist->lists;
    if (call(decoder, head, d, most, work, size) != -BAD_LIST) stop("refusals");
    *list = kept;
}

/* One call of up to `most` steps. Returns: those that were taken. */
static int64_t try_call(const Decoder *decoder, const Linear *head, Decoding *d, Decoding *one, int64_t most) {
    const int64_t first = d->position, size = call(decoder, head, d, most, 0, 0), less = draw(0, size - 1);
    void *work = get(size);
    if (call(decoder, head, d, most, work, less) != size) stop("sizes");
    refuse(decoder, head, d, most, work, size);
    if (d->position != first) stop("counts");
    compare_decodings(d, one); /* nothing was done */
    if (call(decoder, head, d, most, work, size) != size) stop("sizes");
    const int64_t steps = d->run.out.steps[0];
    if (steps < 1 || steps > most || d->position != first + steps - 1) stop("counts");
    for (int64_t i = 1; i <= steps; i++, one->position++)
        if (take_step(decoder, head, one) != (i == steps) && (i < steps || steps < most)) stop("ends");
    d->position = first + steps, d->step.tokens = d->run.out.next_tokens;
    compare_decodings(d, one);
    compare_outputs(&d->run, &one->run);
    return steps;
}

void try_decode_steps(void) {
    const int64_t past = draw(0, 5), words = draw(5, 40), K = draw(0, 1) ? 1 : draw(2, 5);
    const int64_t T = past + draw(1, 12); /* with tables of exactly so many positions */
    const Stack s = any_stack(T, words, draw(0, 3) == 0);
    const RecurrentDecoder cells = any_recurrent(words);
    const Decoder decoder = draw(0, 2) ? (Decoder){&s, 0} : (Decoder){0, &cells};
    const Linear head = map(decoder.stack ? s.dim : cells.dim, words, (int)draw(0, 1));
    const Run run = any_run(&head, K, K == 1 && draw(0, 3));
    int64_t left = T - past < run.search.room ? T - past : run.search.room;
    Decoding d = any_decoding(&decoder, &run, past, left), one;
    copy_decoding(&d, &one);
    for (int64_t open = 1; open && left;) {
        const int64_t most = draw(1, left < 4 ? left : 4);
        left -= try_call(&decoder, &head, &d, &one, most);
        for (int64_t b = open = 0; b < run.search.sentences; b++) open |= !d.run.out.done[b];
    }
}
