/* Random searches, step by step, until all sentences are done, each of which must be what it is
 * alone, bit by bit. */
#include "search_fuzz.h"
#include <math.h>

enum { PAD, EOS = 2, MOST_BEAMS = 32 };

/* What a step writes. */
static void make_output(Run *run, const uint8_t *done) {
    const int64_t B = run->search.sentences, K = run->search.beams, N = B * K;
    const int64_t most = B * (2 * K + 1), room = run->search.room;
    const StepOutput out = {get(N * 8),    get(N * 8),    copy(done, B),        get(8),
                            get(8),        get(8),        get(most * 8),        get(most * 8),
                            get(most * room * 8),         get(most * room * 8)};
    run->out = out;
    run->topk.log_probs = get(N * run->topk.k * 4), run->topk.ids = get(N * run->topk.k * 8);
}

static int64_t *integers(int64_t count, int64_t least, int64_t most) {
    int64_t *x = get(count * 8);
    for (int64_t i = 0; i < count; i++) x[i] = draw(least, most);
    return x;
}

static double *fractions(int64_t count, double value) {
    double *x = get(count * 8);
    for (int64_t i = 0; i < count; i++) x[i] = value;
    return x;
}

Run any_run(const Linear *head, int64_t K, int is_greedy) {
    static const int64_t never[] = {0, 1, 3};
    Run run = {0};
    Search *s = &run.search;
    s->is_greedy = is_greedy, s->by_score = (int32_t)draw(0, 1), s->is_gnmt = (int32_t)draw(0, 1);
    const int64_t B = draw(1, K > 8 ? 3 : 9), N = B * K, outputs = head->out_features;
    s->sentences = B, s->beams = K, s->pad = PAD;
    int64_t *limits = integers(B, 1, 12);
    for (int64_t b = 0; b < B; b++) s->room = limits[b] > s->room ? limits[b] : s->room;
    if (draw(0, 3) == 0) s->room += draw(0, 4000 / K); /* then it needs more scratch memory than a decoder */
    s->limits = limits, s->min_lengths = integers(B, 0, draw(0, 1) ? 5 : 0);
    s->prefix_width = draw(1, 4);
    int64_t *prefixes = integers(B * s->prefix_width, 4, outputs - 1);
    for (int64_t b = 0; b < B; b++)
        for (int64_t i = draw(0, s->prefix_width - 1); i < s->prefix_width; i++)
            prefixes[b * s->prefix_width + i] = -1;
    s->prefixes = prefixes;
    s->length = integers(B, 0, 0), s->tokens = get(N * s->room * 8), s->logp = get(N * s->room * 8);
    if (!s->is_greedy) {
        double *exponents = fractions(B, 0);
        for (int64_t b = 0; b < B; b++) exponents[b] = (double)draw(0, 4) / 2;
        s->exponent = exponents, s->max_finished = integers(B, 1, 2 * K);
        s->total = fractions(N, -INFINITY), s->best = fractions(B, -INFINITY);
        for (int64_t b = 0; b < B; b++) s->total[b * K] = 0;
        s->count = integers(B, 0, 0), s->greedy = integers(B, s->by_score - 1, s->by_score - 1);
    }
    const int64_t k = s->is_greedy ? 1 : 2 * K < outputs ? 2 * K : outputs;
    const TopK topk = {.k = k, .banned = never, .banned_count = 3, .eos = EOS};
    run.topk = topk;
    if (draw(0, 1)) {
        const Shortlist lists = any_lists(head, N);
        run.topk.shortlist = copy(&lists, sizeof lists);
    }
    if (draw(0, 1)) {
        const Constraints constraints = any_constraints(head, N);
        run.topk.constraints = copy(&constraints, sizeof constraints);
        if (draw(0, 1)) s->progress = integers(N * (k + constraints.width), 0, draw(0, 3));
    }
    uint8_t *done = get(B);
    for (int64_t b = 0; b < B; b++) done[b] = draw(0, 9) == 0;
    make_output(&run, done);
    return run;
}

/* Some items of an array whose items are so many 8-byte numbers. */
static void *items(const void *x, int64_t first, int64_t count, int64_t width) {
    return x ? copy((const char *)x + first * width * 8, count * width * 8) : 0;
}

Run run_of(const Run *all, int64_t b, int64_t count) {
    Run run = *all;
    Search *s = &run.search;
    const int64_t K = s->beams;
    s->sentences = count;
    s->limits = items(s->limits, b, count, 1), s->min_lengths = items(s->min_lengths, b, count, 1);
    s->prefixes = items(s->prefixes, b, count, s->prefix_width);
    s->max_finished = items(s->max_finished, b, count, 1), s->exponent = items(s->exponent, b, count, 1);
    s->length = items(s->length, b, count, 1), s->count = items(s->count, b, count, 1);
    s->tokens = items(s->tokens, b, count, K * s->room), s->logp = items(s->logp, b, count, K * s->room);
    s->total = items(s->total, b, count, K), s->greedy = items(s->greedy, b, count, 1);
    s->best = items(s->best, b, count, 1), s->entries = items(s->entries, b, count, K * s->entries_stride);
    if (run.topk.shortlist) {
        Shortlist *lists = copy(run.topk.shortlist, sizeof *lists);
        lists->row_lists = items(lists->row_lists, b, count, K), run.topk.shortlist = lists;
    }
    int64_t candidates = run.topk.k;
    if (run.topk.constraints) {
        Constraints *constraints = copy(run.topk.constraints, sizeof *constraints);
        constraints->places = items(constraints->places, b, count, K);
        constraints->log_probs = get(constraints->count * constraints->width * 4);
        run.topk.constraints = constraints, candidates += constraints->width;
    }
    s->progress = items(s->progress, b, count, K * candidates);
    make_output(&run, all->out.done + b);
    return run;
}

void compare(const char *name, const double *all, const double *alone, int64_t count) {
    for (int64_t i = 0; all && i < count; i++)
        if (memcmp(all + i, alone + i, 8) && !(isnan(all[i]) && isnan(alone[i])))
            printf("%s of a search differ\n", name), exit(1);
}

void compare_ids(const char *name, const int64_t *all, const int64_t *alone, int64_t count) {
    if (all && memcmp(all, alone, (size_t)count * 8)) printf("%s of a search differ\n", name), exit(1);
}

void compare_states(const Run *all, const Run *alone, int64_t b) {
    const Search *s = &all->search, *one = &alone->search;
    const int64_t K = s->beams, room = s->room, length = s->length[b];
    compare_ids("lengths", s->length + b, one->length, 1);
    for (int64_t i = 0; i < K; i++) {
        compare_ids("tokens", s->tokens + (b * K + i) * room, one->tokens + i * room, length);
        compare("tokens' numbers", s->logp + (b * K + i) * room, one->logp + i * room, length);
    }
    if (all->out.done[b] != alone->out.done[0]) printf("the end of a search differs\n"), exit(1);
    if (s->entries)
        compare_ids("entries", s->entries + b * K * s->entries_stride, one->entries, K * s->entries_stride);
    if (s->is_greedy) return;
    compare("totals", s->total + b * K, one->total, K);
    compare("the best", s->best + b, one->best, 1);
    compare_ids("counts", s->count + b, one->count, 1);
    compare_ids("beams of greedy search", s->greedy + b, one->greedy, 1);
}

/* What a step gave sentence b, from hypothesis `first` on, against what it gave the sentence alone.
 * Returns: the first hypothesis of the next sentence. */
static int64_t compare_outputs(const Run *all, const Run *alone, int64_t b, int64_t first) {
    const int64_t K = all->search.beams, room = all->search.room;
    const StepOutput *out = &all->out, *one = &alone->out;
    compare_ids("next tokens", out->next_tokens + b * K, one->next_tokens, K);
    for (int64_t i = 0; i < K; i++) {
        const int64_t parent = out->parents[b * K + i] - b * K;
        if (!all->search.is_greedy) compare_ids("parents", &parent, one->parents + i, 1);
    }
    for (int64_t i = 0; i < one->finished[0]; i++) {
        const int64_t at = first + i, n = all->search.length[b];
        compare_ids("sentences", out->finished_sentences + at, &b, 1);
        compare("scores", out->finished_scores + at, one->finished_scores + i, 1);
        compare_ids("hypotheses", out->finished_tokens + at * room, one->finished_tokens + i * room, n);
        compare("hypotheses' numbers", out->finished_logp + at * room, one->finished_logp + i * room, n);
    }
    return first + one->finished[0];
}

/* One step, in scratch memory of the size that it asks for, or of less if that is enough for the
 * rows that are live. */
static void step(const Linear *head, const float *hidden, const Run *run, Run *before) {
    const int64_t size = advance_search(head, hidden, &run->topk, &run->search, &run->out, 0, 0);
    const int64_t less = draw(0, size - 1);
    if (advance_search(head, hidden, &run->topk, &run->search, &run->out, get(less), less) <= less) return;
    for (int64_t b = 0; before && b < run->search.sentences; b++) compare_states(run, before + b, b);
    if (advance_search(head, hidden, &run->topk, &run->search, &run->out, get(size), size) > size)
        printf("a search needs more than it said\n"), exit(1);
}

/* Hidden states, some of which a model that diverged may have. */
static float *any_hidden(int64_t rows, int64_t inputs) {
    static const float wrong[] = {NAN, -INFINITY, INFINITY};
    float *hidden = numbers(rows * inputs);
    for (int64_t count = draw(-4, 2); count > 0; count--) {
        const int64_t row = draw(0, rows - 1), i = draw(0, 2);
        if (draw(0, 1)) hidden[row * inputs + draw(0, inputs - 1)] = wrong[i];
        else for (int64_t c = 0; c < inputs; c++) hidden[row * inputs + c] = wrong[i];
    }
    return hidden;
}

static void add_entries(Search *s) {
    s->entries_length = draw(0, 30); /* of tokens before those of this search */
    s->entries_stride = s->entries_length + s->room + draw(0, 3);
    s->entries = integers(s->sentences * s->beams * s->entries_stride, 0, 99);
}

static void refuse_beams(const Linear *head, const Run *run) {
    Run wide = *run;
    wide.search.beams = draw(0, 1) ? MOST_BEAMS + 1 : INT64_MAX / 64;
    wide.search.sentences = 1;
    if (s2s_find_candidates(head, 0, &wide.topk, &wide.search, &wide.out, 0, 0) != -BAD_BEAMS)
        printf("beams not refused\n"), exit(1);
}

void try_search(void) {
    const int64_t inputs = draw(1, 40), outputs = draw(0, 2) ? draw(5, 20) : draw(5, 400);
    const Linear head = map(inputs, outputs, (int)draw(0, 1));
    const int is_greedy = draw(0, 3) == 0;
    const int64_t K = is_greedy ? 1 : draw(0, 15) ? draw(1, 8) : MOST_BEAMS;
    Run all = any_run(&head, K, is_greedy), alone[9];
    const int64_t B = all.search.sentences;
    refuse_beams(&head, &all);
    if (draw(0, 1)) add_entries(&all.search);
    for (int64_t b = 0; b < B; b++) alone[b] = run_of(&all, b, 1);
    for (int64_t open = 1; open;) {
        float *hidden = any_hidden(B * K, inputs);
        uint8_t was_done[9];
        memcpy(was_done, all.out.done, (size_t)B);
        all.search.entries_length += all.search.entries != 0;
        step(&head, hidden, &all, alone);
        int64_t first = open = 0;
        for (int64_t b = 0; b < B; b++) {
            alone[b].search.entries_length = all.search.entries_length;
            if (was_done[b]) {
                for (int64_t i = b * K; i < (b + 1) * K; i++)
                    if (all.out.parents[i] != i || all.out.next_tokens[i] != all.search.pad) printf("a done row moves\n"), exit(1);
            } else {
                step(&head, copy(hidden + b * K * inputs, K * inputs * 4), alone + b, 0);
                first = compare_outputs(&all, alone + b, b, first);
            }
            compare_states(&all, alone + b, b);
            open |= !all.out.done[b];
        }
        if (first != all.out.finished[0]) printf("hypotheses without a sentence\n"), exit(1);
    }
}
