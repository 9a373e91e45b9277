/* What greedy search and a beam search make of the best outputs of each row. greedy.py and beam.py say
 * what that is, and why; here are the same decisions in the same order, on the same arrays. */
#include "kernels.h"
#include <math.h>

enum { MAX_PLACES = 2 * MAX_BEAMS + 1 };

/* A continuation of a beam of a sentence. */
typedef struct {
    int64_t turn, progress; /* see set_turn */
    double value, gain;     /* log-probability with the token, and of the token */
    int64_t beam, token;
    int is_greedy; /* is it the output of greedy search? */
    int is_end;    /* does it end a hypothesis? */
} Continuation;

/* A step of one sentence: where its numbers are. */
typedef struct {
    const Search *search;
    const TopK *topk;
    const StepOutput *out;
    const int64_t *places; /* (rows,), of each row in what `topk` found; -1: it was not computed */
    int64_t sentence;
    int64_t length; /* of each hypothesis, the new token included */
    int64_t *tokens;
    double *logp;    /* with tokens: (beams, room) */
    double *total;   /* (beams,) */
    int64_t *parents, *next; /* (beams,) */
} Sentence;

/* Scratch memory of a sentence. */
typedef struct {
    int64_t *rows;               /* (beams, room), or a row of the table of entries if that is longer */
    Continuation *continuations; /* (beams, candidates) */
    double *values;              /* the same */
} Scratch;

/* Numbers in the order of a search: NaN is the largest. */
static double rank(double x) { return isnan(x) ? INFINITY : x; }

static int is_better(const Continuation *a, const Continuation *b) {
    if (a->turn != b->turn) return a->turn < b->turn;
    if (a->progress != b->progress) return a->progress > b->progress;
    return rank(a->value) > rank(b->value);
}

/* Puts a continuation where it belongs, best first; of equals, the first stays first. Returns: how
 * many there are. */
static int64_t insert_continuation(Continuation *best, int64_t count, int64_t most,
                                   const Continuation *new) {
    if (count == most && !is_better(new, best + most - 1)) return count;
    int64_t place = count < most ? count++ : most - 1;
    for (; place > 0 && is_better(new, best + place - 1); place--) best[place] = best[place - 1];
    best[place] = *new;
    return count;
}

/* The candidates of each row: the k best, and those that are required. */
static int64_t count_candidates(const TopK *topk) {
    return topk->k + (topk->constraints ? topk->constraints->width : 0);
}

static Continuation continuation_at(const Sentence *s, int64_t beam, int64_t candidate) {
    const int64_t k = s->topk->k, row = s->sentence * s->search->beams + beam;
    const int64_t *ids = s->topk->ids;
    const float *log_probs = s->topk->log_probs;
    int64_t place = s->places[row], at = place * k + candidate;
    if (candidate >= k && place >= 0) {
        const Constraints *constraints = s->topk->constraints;
        ids = constraints->required, log_probs = constraints->log_probs;
        place = constraints->places[row], at = place * constraints->width + candidate - k;
    }
    if (place < 0 || ids[at] < 0)
        return (Continuation){0, 0, -INFINITY, 0, beam, s->search->pad, 0, 0};
    const double gain = log_probs[at], value = s->total[beam] + gain;
    const int64_t token = ids[at], greedy = s->search->greedy[s->sentence];
    const int is_greedy = beam == greedy && candidate == 0 && isfinite(value);
    const int is_end = token == s->topk->eos && value != -INFINITY;
    return (Continuation){0, 0, value, gain, beam, token, is_greedy, is_end};
}

/* Does any continuation of a sentence have another progress than the others? */
static int has_progress(const int64_t *progress, int64_t count) {
    for (int64_t i = 1; progress && i < count; i++)
        if (progress[i] != progress[0]) return 1;
    return 0;
}

/* Continuations of each progress take turns: the best of each, most progress first, then the second
 * best of each, and so on; impossible ones come last. values: (count,), scratch. */
static void take_turns(const int64_t *progress, Continuation *all, int64_t count, double *values) {
    for (int64_t i = 0; i < count; i++) {
        const int is_possible = all[i].value != -INFINITY;
        all[i].progress = is_possible ? progress[i] : -1, all[i].turn = is_possible ? 0 : INT64_MAX;
        values[i] = rank(all[i].value);
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count && all[i].progress >= 0; j++)
            all[i].turn += all[j].progress == all[i].progress &&
                           (values[j] > values[i] || (values[j] == values[i] && j < i));
}

/* The 2K best continuations, best first, then that of greedy search. Returns: how many. */
static int64_t select_continuations(const Sentence *s, const Scratch *scratch,
                                    Continuation *best) {
    const int64_t K = s->search->beams, C = count_candidates(s->topk);
    const int64_t most = 2 * K < K * C ? 2 * K : K * C, greedy = s->search->greedy[s->sentence];
    const int64_t *progress = s->search->progress ? s->search->progress + s->sentence * K * C : 0;
    Continuation *all = scratch->continuations;
    int64_t count = 0;
    for (int64_t i = 0; i < K * C; i++) all[i] = continuation_at(s, i / C, i % C);
    if (has_progress(progress, K * C)) take_turns(progress, all, K * C, scratch->values);
    for (int64_t i = 0; i < K * C; i++) count = insert_continuation(best, count, most, all + i);
    best[count] = continuation_at(s, greedy < 0 ? 0 : greedy, 0);
    return count + 1;
}

static double penalty(const Search *search, int64_t sentence, double n) {
    return pow(search->is_gnmt ? (5 + n) / 6 : n, search->exponent[sentence]);
}

/* Hands out the hypothesis of a beam, whose last token may be new. */
static void finish(const Sentence *s, const double *score, int64_t beam, const Continuation *last) {
    const int64_t room = s->search->room, n = s->length, before = last ? n - 1 : n;
    const int64_t at = s->out->finished[0]++;
    int64_t *tokens = s->out->finished_tokens + at * room;
    double *logp = s->out->finished_logp + at * room;
    memcpy(tokens, s->tokens + beam * room, (size_t)before * sizeof *tokens);
    memcpy(logp, s->logp + beam * room, (size_t)before * sizeof *logp);
    if (last) tokens[n - 1] = last->token, logp[n - 1] = last->gain;
    s->out->finished_sentences[at] = s->sentence;
    s->out->finished_scores[at] = score ? *score : NAN;
}

/* Finishes a hypothesis with its score. */
static void finish_beam(const Sentence *s, double total, int64_t beam, const Continuation *last) {
    const double score = total / penalty(s->search, s->sentence, (double)s->length);
    double *best = s->search->best + s->sentence;
    if (isnan(score) || score > *best) *best = score;
    finish(s, &score, beam, last);
}

/* Those of the first K, and the output of greedy search, that end here. */
static void finish_ended(const Sentence *s, const Continuation *best, int64_t count) {
    const int64_t K = s->search->beams;
    int has_greedy = 0;
    for (int64_t i = 0; i < K; i++) has_greedy |= best[i].is_greedy;
    for (int64_t i = 0; i < count; i++) {
        const Continuation *each = best + i;
        const int is_chosen = i < K || (i == count - 1 && each->is_greedy && !has_greedy);
        if (!is_chosen || !each->is_end || !isfinite(each->value)) continue;
        finish_beam(s, each->value, each->beam, each);
        s->search->count[s->sentence]++;
    }
}

/* The K best that do not end, the last of them replaced by the output of greedy search if that is
 * not among them. */
static void select_open(const Continuation *best, int64_t count, int64_t K, Continuation *open) {
    int64_t chosen = 0;
    int has_greedy = 0;
    for (int is_end = 0; is_end < 2; is_end++) /* those that end only if there are too few */
        for (int64_t i = 0; i < count - 1 && chosen < K; i++)
            if (best[i].is_end == is_end) {
                has_greedy |= best[i].is_greedy && !is_end;
                open[chosen++] = best[i];
            }
    const Continuation *greedy = best + count - 1;
    if (greedy->is_greedy && !greedy->is_end && !has_greedy) open[K - 1] = *greedy;
}

/* Row i of x (K, stride) becomes row open[i].beam of it, in its first `columns`. */
static void fork_rows(const Continuation *open, int64_t K, int64_t *x, int64_t stride,
                      int64_t columns, int64_t *scratch) {
    const size_t bytes = (size_t)columns * sizeof *x;
    for (int64_t i = 0; i < K; i++) memcpy(scratch + i * columns, x + i * stride, bytes);
    for (int64_t i = 0; i < K; i++)
        memcpy(x + i * stride, scratch + open[i].beam * columns, bytes);
}

/* Each beam becomes one of K continuations. */
static void continue_beams(const Sentence *s, const Continuation *open, int64_t *scratch) {
    const Search *search = s->search;
    const int64_t K = search->beams, room = search->room, before = s->length - 1;
    int is_moved = 0;
    search->greedy[s->sentence] = -1;
    for (int64_t i = K - 1; i >= 0; i--) {
        if (open[i].is_greedy && !open[i].is_end) search->greedy[s->sentence] = i;
        is_moved |= open[i].beam != i;
    }
    if (is_moved) {
        fork_rows(open, K, s->tokens, room, before, scratch);
        fork_rows(open, K, (int64_t *)s->logp, room, before, scratch);
        const int64_t stride = search->entries_stride;
        if (search->entries)
            fork_rows(open, K, search->entries + s->sentence * K * stride, stride,
                      search->entries_length, scratch);
        s->out->is_moved[0] = 1;
    }
    for (int64_t i = 0; i < K; i++) {
        s->parents[i] = s->sentence * K + open[i].beam;
        s->total[i] = open[i].value;
        s->next[i] = open[i].value == -INFINITY ? search->pad : open[i].token;
        s->tokens[i * room + before] = open[i].token;
        s->logp[i * room + before] = open[i].gain;
    }
}

/* Are there enough finished hypotheses, and can no open one still win? */
static int is_decided(const Sentence *s) {
    const Search *search = s->search;
    const int64_t b = s->sentence, K = search->beams, limit = search->limits[b];
    if (search->count[b] < search->max_finished[b]) return 0;
    if (!search->by_score || K == 1) return 1;
    double most = s->total[0];
    for (int64_t i = 1; i < K; i++)
        if (isnan(s->total[i]) || s->total[i] > most) most = s->total[i];
    /* Log-probabilities only fall. If the highest ended next: */
    const int64_t next = s->length + 1 < limit ? s->length + 1 : limit;
    if (!(search->best[b] >= most / penalty(search, b, (double)next))) return 0;
    /* Greedy search is followed to its end if it could still be the best. */
    if (search->greedy[b] < 0) return 1;
    const double greedy = s->total[search->greedy[b]];
    return search->best[b] >= greedy / penalty(search, b, (double)limit);
}

static void advance_beams(const Sentence *s, const Scratch *scratch) {
    Continuation best[MAX_PLACES], open[MAX_BEAMS];
    const int64_t K = s->search->beams, count = select_continuations(s, scratch, best);
    finish_ended(s, best, count);
    select_open(best, count, K, open);
    continue_beams(s, open, scratch->rows);
    int is_done = is_decided(s);
    if (!is_done && s->length >= s->search->limits[s->sentence]) {
        is_done = 1;
        /* A dead beam gives no result; NaN, from a model that diverged, does. */
        for (int64_t i = 0; i < K; i++)
            if (s->total[i] != -INFINITY) finish_beam(s, s->total[i], i, 0);
    }
    s->out->done[s->sentence] = (uint8_t)is_done;
}

static void advance_greedy(const Sentence *s) {
    const int64_t at = s->places[s->sentence] * s->topk->k;
    s->next[0] = s->tokens[s->length - 1] = s->topk->ids[at];
    s->logp[s->length - 1] = s->topk->log_probs[at];
    if (s->next[0] != s->topk->eos && s->length < s->search->limits[s->sentence]) return;
    s->out->done[s->sentence] = 1;
    finish(s, 0, 0, 0);
}

int is_live(const Search *search, const uint8_t *done, int64_t row) {
    const int is_open = search->is_greedy || search->total[row] != -INFINITY;
    return is_open && !done[row / search->beams];
}

/* Advances a sentence whose best outputs are found. */
static void advance(const Search *search, const TopK *topk, const StepOutput *out,
                    const int64_t *places, int64_t b, const Scratch *scratch) {
    const int64_t K = search->beams, row = b * K;
    if (out->done[b]) { /* its rows are there until the batch drops them */
        for (int64_t i = row; i < row + K; i++)
            out->parents[i] = i, out->next_tokens[i] = search->pad;
        return;
    }
    const Sentence s = {.search = search, .topk = topk, .out = out, .places = places, .sentence = b,
                        .length = ++search->length[b],
                        .tokens = search->tokens + row * search->room,
                        .logp = search->logp + row * search->room,
                        .total = search->total + row,
                        .parents = out->parents + row,
                        .next = out->next_tokens + row};
    if (search->is_greedy) advance_greedy(&s);
    else advance_beams(&s, scratch);
}

int64_t s2s_choose(const TopK *topk, const Search *search, const StepOutput *out, void *workspace,
                   int64_t size) {
    const int64_t B = search->sentences, K = search->beams;
    if (K > MAX_BEAMS) return -BAD_BEAMS;
    const int64_t candidates = search->is_greedy ? 0 : K * count_candidates(topk);
    Arena arena = {workspace, 0};
    int64_t *places = arena_alloc(&arena, B * K * 8);
    Scratch scratch = {arena_alloc(&arena, K * max_of(search->room, search->entries_stride) * 8)};
    scratch.continuations = arena_alloc(&arena, candidates * (int64_t)sizeof(Continuation));
    scratch.values = arena_alloc(&arena, candidates * 8);
    if (arena.size > size) return arena.size;

    int64_t count = 0; /* of the rows whose candidates were found, next to each other */
    for (int64_t r = 0; r < B * K; r++) places[r] = is_live(search, out->done, r) ? count++ : -1;
    out->finished[0] = out->is_moved[0] = 0;
    for (int64_t b = 0; b < B; b++) advance(search, topk, out, places, b, &scratch);
    return arena.size;
}
