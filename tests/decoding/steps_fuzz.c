/* Random searches over random decoders through s2s_decode_steps, in memory of exactly the size it is
 * told. Each call must be what s2s_decode and s2s_search in turn are, bit by bit. */
#include "search_fuzz.h"

/* A search, and all that its decoder reads and writes. */
typedef struct {
    Run run;
    DecodeStep step;
    KVCache caches[3];
    float *states[3]; /* of recurrent units */
    float *hidden;
    int64_t cache_bytes[3], position;
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
static Decoding any_decoding(const Stack *s, const Run *run, int64_t past, int64_t most) {
    Decoding d = {.run = *run, .position = past};
    Search *search = &d.run.search;
    const int64_t K = search->beams, B = search->sentences, N = B * K, length = past + most;
    const int64_t S = draw(1, 20), D = s->dim / s->layers[0].cross_attn.n_heads;
    const int is_recurrent = s->layers[0].ssru.in_proj.panels != 0;
    KVCache *sources = get(3 * (int64_t)sizeof *sources);
    for (int i = 0; i < s->n_layers; i++) {
        const int64_t G = s->layers[i].self_attn.n_kv_heads;
        d.caches[i] = any_cache(B, G, length * K, D);
        d.cache_bytes[i] = (d.caches[i].kept ? d.caches[i].kept[B - 1] + 1 : B) * G * length * K * D * 4;
        sources[i] = any_cache(B, s->layers[i].cross_attn.n_kv_heads, S, D);
        d.states[i] = numbers(N * s->dim);
    }
    int64_t *tokens = get(N * 8);
    for (int64_t r = 0; r < N; r++) tokens[r] = draw(0, s->vocab_size - 1);
    uint8_t *real = get(B * S);
    for (int64_t i = 0; i < B * S; i++) real[i] = (uint8_t)(i % S == 0 || draw(0, 3) > 0);
    const DecodeStep step = {.rows = N, .pad = draw(0, 3) ? 0 : -1, .tokens = tokens,
                             .cross_view = {B, S, draw(0, 1) ? real : 0, 0, 0}, .cross_caches = sources};
    d.step = step, d.hidden = get(N * s->dim * 4);
    memset(d.hidden, 0, (size_t)(N * s->dim) * 4);
    if (is_recurrent) return d;
    d.step.self_view.rows = N;
    if (K == 1) return d;
    search->entries = any_entries(N, K, past, length), search->entries_stride = length;
    d.step.self_view.slots = search->entries, d.step.self_view.slots_stride = length;
    return d;
}

/* Describes its next step, as the caller of the C does before each call. */
static void describe(Decoding *d) {
    d->step.positions = &d->position;
    if (d->step.self_view.rows) d->step.self_caches = d->caches, d->step.self_view.length = d->position + 1;
    else d->step.ssru_states = d->states;
    if (d->run.search.entries) d->run.search.entries_length = d->position + 1;
}

static void copy_decoding(const Decoding *from, const Stack *s, Decoding *to) {
    const int64_t numbers_of = from->step.rows * s->dim * 4;
    *to = *from, to->run = run_of(&from->run, 0, from->run.search.sentences);
    for (int i = 0; i < s->n_layers; i++) {
        to->caches[i].keys = copy(from->caches[i].keys, from->cache_bytes[i]);
        to->caches[i].values = copy(from->caches[i].values, from->cache_bytes[i]);
        to->states[i] = copy(from->states[i], numbers_of);
    }
    to->hidden = copy(from->hidden, numbers_of), to->step.tokens = copy(from->step.tokens, from->step.rows * 8);
    if (to->run.search.entries) to->step.self_view.slots = to->run.search.entries;
    describe(to);
}

/* What is remembered, and the states of the searches. */
static void compare_decodings(const Decoding *d, const Decoding *one, const Stack *s) {
    for (int i = 0; i < s->n_layers; i++) {
        const size_t bytes = (size_t)d->cache_bytes[i];
        if (memcmp(d->caches[i].keys, one->caches[i].keys, bytes) ||
            memcmp(d->caches[i].values, one->caches[i].values, bytes)) stop("caches");
        if (memcmp(d->states[i], one->states[i], (size_t)(d->step.rows * s->dim) * 4)) stop("states");
    }
    if (memcmp(d->hidden, one->hidden, (size_t)(d->step.rows * s->dim) * 4)) stop("hidden states");
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
        const int64_t n = run->search.lengths[out->finished_sentences[i]];
        compare_ids("hypotheses", out->finished_tokens + i * room, other->finished_tokens + i * room, n);
        compare("numbers", out->finished_logp + i * room, other->finished_logp + i * room, n);
    }
}

static int64_t call(const Stack *s, const Linear *head, Decoding *d, int64_t most, void *work, int64_t size) {
    describe(d);
    return s2s_decode_steps(s, &d->step, &d->position, head, &d->run.topk, &d->run.search, &d->run.out,
                            most, d->hidden, work, size);
}

/* One step by the functions that the call is made of. Returns: is it the last of a call? */
static int take_step(const Stack *s, const Linear *head, Decoding *d) {
    Run *run = &d->run;
    const int64_t B = run->search.sentences;
    const uint8_t *before = copy(run->out.done, B);
    describe(d);
    int64_t size = s2s_decode(s, &d->step, d->hidden, 0, 0);
    s2s_decode(s, &d->step, d->hidden, get(size), size);
    size = s2s_search(head, d->hidden, &run->topk, &run->search, &run->out, 0, 0);
    s2s_search(head, d->hidden, &run->topk, &run->search, &run->out, get(size), size);
    d->step.tokens = run->out.next_tokens;
    return run->out.finished[0] || memcmp(before, run->out.done, (size_t)B);
}

/* One call of up to `most` steps. Returns: those that were taken. */
static int64_t try_call(const Stack *s, const Linear *head, Decoding *d, Decoding *one, int64_t most) {
    const int64_t first = d->position, size = call(s, head, d, most, 0, 0), less = draw(0, size - 1);
    if (call(s, head, d, most, get(less), less) <= less) stop("sizes");
    if (d->run.out.steps[0] || d->position != first) stop("counts");
    compare_decodings(d, one, s); /* nothing was done */
    const int64_t more = size + draw(0, 1) * 100000;
    if (call(s, head, d, most, get(more), more) != 0) stop("results");
    const int64_t steps = d->run.out.steps[0];
    int is_last = 0;
    for (int64_t i = 0; i < steps; i++, one->position++) {
        if (is_last) stop("ends");
        is_last = take_step(s, head, one);
    }
    d->position = first + steps, d->step.tokens = d->run.out.next_tokens;
    compare_decodings(d, one, s);
    compare_outputs(&d->run, &one->run);
    if (steps < 1 || steps > most) stop("counts");
    if (steps < most && !is_last && call(s, head, d, most, 0, 0) <= more) stop("steps for want of room");
    return steps;
}

void try_decode_steps(void) {
    const int64_t past = draw(0, 5), words = draw(5, 40), K = draw(0, 1) ? 1 : draw(2, 5);
    const int is_greedy = K == 1 && draw(0, 3), is_recurrent = K == 1 && draw(0, 3) == 0;
    const int64_t T = past + draw(1, 12); /* with tables of exactly so many positions */
    const Stack s = any_stack(T, words, is_recurrent);
    const Linear head = map(s.dim, words, (int)draw(0, 1));
    const Run run = any_run(&head, K, is_greedy);
    int64_t left = T - past < run.search.room ? T - past : run.search.room;
    Decoding d = any_decoding(&s, &run, past, left), one;
    copy_decoding(&d, &s, &one);
    for (int64_t open = 1; open && left;) {
        const int64_t most = draw(1, left < 4 ? left : 4);
        left -= try_call(&s, &head, &d, &one, most);
        for (int64_t b = open = 0; b < run.search.sentences; b++) open |= !d.run.out.done[b];
    }
}
