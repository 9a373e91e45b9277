/* The interface of this library: what Python fills in, and the functions that it calls.
 *
 * layout.py reads this file, and no other, so that types are declared once. Beside comments and
 * lines that begin with #, it accepts
 *
 *     enum { NAME, NAME };                              numbered from 0
 *     typedef struct { TYPE name, *name; } Name;        members, each line ended by a semicolon
 *     S2S_API TYPE name(TYPE name, TYPE *name);         or (void)
 *
 * where TYPE is float, double, int8_t, uint8_t, int32_t, int64_t, void or a struct above, `const` may stand
 * anywhere, and * before a name as often as needed. All else is refused by its line.
 *
 * Matrices are row-major and without gaps; shapes stand in brackets. Functions that need scratch
 * memory take `workspace` and its size in bytes, and return the bytes that they need: if these are
 * more, nothing else was done. A negative number is an error: -BAD_TOKEN, for example. */
#ifndef NATIVE_H
#define NATIVE_H

#include <stdint.h>

#define S2S_API __attribute__((visibility("default")))

enum { NO_ERROR, BAD_TOKEN, BAD_POSITION, BAD_BEAMS, BAD_LIST };
enum { NO_NORM, LAYER_NORM, RMS_NORM };
enum { NO_ACTIVATION, RELU, GELU, SILU, TANH };

/* A linear map y = x W^T + bias. */
typedef struct {
    int32_t in_features, out_features;
    int32_t is_int8;
    const void *panels;         /* W, as s2s_pack_float32 or s2s_pack_int8 wrote it; NULL: no map */
    const float *scales;        /* (out_features,), in int8: W = integers * scales */
    const int32_t *weight_sums; /* (out_features,), in int8: of the integers */
    const float *bias;          /* (out_features,) or NULL */
    float input_scale; /* in int8, calibrated: x = integers * input_scale; 0: each row has its own */
} Linear;

/* Ids and positions as vectors. */
typedef struct {
    const float *tokens; /* (vocab_size, dim) */
    float scale;
    const float *positions; /* (max_positions, dim), or NULL */
    int64_t vocab_size;
    int64_t max_positions; /* rows of all tables of positions; cells have none */
} Embedding;

typedef struct {
    int32_t kind; /* LAYER_NORM, ... */
    float epsilon;
    const float *weight, *bias; /* (dim,); bias or NULL */
} Norm;

/* What is added to each score, by head and by the key's minus the query's position: a number (ALiBi,
 * T5), and the query's product with a vector (Transformer-XL). Nobody changes a table: a longer one
 * takes its place, whole, while other threads read it. */
typedef struct {
    const float *bias; /* (n_heads, stride), distance 0 in the middle of a row */
    const float *keys; /* (n_heads, stride, head_dim), likewise; or NULL */
    int64_t stride;
} RelativeBias;

/* Attention of n_heads query heads to n_kv_heads heads of keys and values. */
typedef struct {
    Linear in_proj;  /* queries; in self-attention also keys and values, side by side */
    Linear out_proj;
    Norm norm;
    int32_t n_heads, n_kv_heads, head_dim; /* n_kv_heads divides n_heads */
    float scale;                           /* of the scores */
    const float *rope_table;           /* (position, head_dim), cosines before sines; or NULL */
    const RelativeBias *relative_bias; /* or NULL */
    const float *score_vector; /* u (n_heads, head_dim) of u . tanh(q + k); NULL: a dot product */
} Attention;

/* The recurrent unit that may stand for the decoder's self-attention: see ssru.c. */
typedef struct {
    Linear in_proj; /* x and gates, side by side; without panels if there is no such unit */
    Norm norm;
} SSRU;

/* The feed-forward network. */
typedef struct {
    Linear up, gate, down; /* gate without panels if there is none */
    Norm norm;
    int32_t activation; /* RELU, ... */
} FeedForward;

/* A layer of the encoder or of the decoder; the encoder's have no cross-attention. */
typedef struct {
    Attention self_attn, cross_attn;
    SSRU ssru; /* or self_attn */
    FeedForward ffn;
} Layer;

/* The encoder, or the decoder. */
typedef struct {
    int32_t dim, n_layers;
    int32_t is_pre_norm; /* do norms stand before the sub-layers, not after? */
    const Layer *layers; /* (n_layers,) */
    Norm final_norm;
    Embedding embedding;
} Stack;

/* A recurrent cell: its gates side by side, of its input and of its state. */
typedef struct {
    Linear input_gates, hidden_gates;
} Cell;

/* A layer of cells in both directions. */
typedef struct {
    Linear input_gates;                   /* of both, side by side */
    Linear forward_gates, backward_gates; /* of their states */
} BidirectionalLayer;

/* An encoder of such layers: see recurrent_encoder.c. */
typedef struct {
    int32_t dim, n_layers; /* dim: of both directions together */
    int32_t is_lstm;
    const BidirectionalLayer *layers; /* (n_layers,) */
    Embedding embedding;
} RecurrentEncoder;

/* A decoder of cells that attends to the source once a step: see recurrent.c. */
typedef struct {
    int32_t dim, n_layers;
    int32_t is_lstm;          /* gates i, f, g, o; else those of a GRU, r, z, n */
    int32_t is_input_feeding; /* Luong's; else Bahdanau's */
    const Cell *cells;        /* (n_layers,) */
    Attention attention;      /* without a norm; maps without panels if there are none */
    Linear score_proj;        /* of queries, after in_proj; without panels if there is none */
    Linear readout;
    Embedding embedding;
} RecurrentDecoder;

/* A decoder of either kind, the other NULL. */
typedef struct {
    const Stack *stack;
    const RecurrentDecoder *cells;
} Decoder;

/* The keys and values of a layer, (row, head, slot, head_dim) with these strides and the last one
 * without gaps. Pages are one row, for all. */
typedef struct {
    float *keys, *values;
    int64_t rows, row_stride, head_stride, slot_stride;
    const int64_t *kept; /* (rows,), where each row is if others between them are not in use; or NULL */
} KVCache;

/* The slots of a cache that each row reads, in the order of their positions: the first `length`, or
 * those of `slots`; of these, those where `mask` is set. Rows of a batch may share a row here. */
typedef struct {
    int64_t rows, length;
    const uint8_t *mask;  /* (rows, length), or NULL */
    const int64_t *slots; /* (rows, slots_stride), of which `length` count; or NULL */
    int64_t slots_stride;
} KVView;

/* Sentences to encode, without padding, one after another. */
typedef struct {
    int64_t rows, sentences, max_length; /* rows: tokens of all sentences */
    const int64_t *tokens, *positions;   /* (rows,); cells read no positions */
    const int64_t *lengths;              /* (sentences,) */
} EncodeBatch;

/* What each row remembers whatever its length: before a step, then after it. */
typedef struct {
    float *values; /* (rows, width) */
    int64_t width;
} RowState;

/* A step of the decoder: one new token in each row, and nothing in rows whose token is `pad`. */
typedef struct {
    int64_t rows, pad;
    const int64_t *tokens;        /* (rows,) */
    int64_t *positions;           /* (rows,) */
    int64_t positions_stride;     /* 0: all rows are at the first position */
    KVView self_view, cross_view; /* self_view: the new token's slot included, last */
    const KVCache *self_caches, *cross_caches; /* (n_layers,), of cells one of the source */
    /* Instead of self_caches: of each SSRU (dim,), at first 0; of cells the hidden states (n_layers,
     * dim), in LSTMs then their cells, and with input feeding last the hidden state (dim,). */
    const RowState *states;
    int64_t states_count;
} DecodeStep;

/* The outputs of a head that each row may choose, by lists that rows may share. */
typedef struct {
    const void *weight;       /* W, (out_features, in_features); in int8 filled up to 4 with zeros */
    int64_t lists, width;     /* width: of the longest list */
    const int64_t *lengths;   /* (lists,), at least 1 */
    const int64_t *ids;       /* (lists, width), ascending, of which `lengths` count */
    const int64_t *row_lists; /* (rows,) */
} Shortlist;

/* What constraints say of the next tokens of `count` of the rows. */
typedef struct {
    int64_t count, outputs, width; /* width: of the most that a row requires */
    const int64_t *places;   /* (rows,), of each row among the `count`, -1: it has no constraint */
    const uint8_t *banned;   /* (count, outputs) */
    const int64_t *required; /* (count, width), tokens of interest whatever their rank; -1: none */
    float *log_probs; /* the same, written: -inf for those that are banned, or among the k best */
} Constraints;

/* The k best next tokens of each row. */
typedef struct {
    int64_t k; /* at most the outputs there are */
    const int64_t *banned; /* (banned_count,), tokens that are never chosen */
    int64_t banned_count, eos;
    const uint8_t *no_eos; /* (rows,), rows that do not choose `eos` either; or NULL */
    const int64_t *forced; /* (rows,), the only choice; -1: any; -2 - token: given; or NULL */
    const Shortlist *shortlist; /* all that there is to choose from; or NULL */
    const Constraints *constraints; /* or NULL */
    float *log_probs;      /* (rows, k), best first */
    int64_t *ids;          /* (rows, k) */
} TopK;

/* The live hypotheses of B sentences, K each, as searches in Python hold them: see SearchState and
 * BeamState, whose attributes have the names of the arrays here. All arrays are changed in place, but
 * for the options of sentences. */
typedef struct {
    int64_t sentences, beams, room; /* B, K, and the tokens that a row of `tokens` can hold */
    int64_t pad; /* the next token of rows that need no further step */
    int32_t is_greedy;              /* each row takes its best token; then total to best are NULL */
    int32_t by_score;               /* does a sentence end when no open hypothesis can win? */
    int32_t is_gnmt;                /* of the forms of the length penalty */
    const int64_t *limits, *min_lengths;     /* (B,), tokens, eos included */
    const int64_t *prefixes; /* (B, prefix_width), -1 after the end of each */
    int64_t prefix_width;
    const int64_t *max_finished; /* (B,), the finished hypotheses after which no more are needed */
    const double *exponent;      /* (B,), of the length penalty */
    int64_t *length;             /* (B,) */
    int64_t *tokens;             /* (B, K, room) */
    double *logp;                /* the same */
    double *total;               /* (B, K), -inf: not live */
    int64_t *count, *greedy;     /* (B,), finished hypotheses; the beam of greedy search, or -1 */
    double *best;                /* (B,), the highest score */
    int64_t *entries;            /* (N, entries_stride), the entries_length first of which say where
                                  * the tokens of each row are remembered; or NULL */
    int64_t entries_stride, entries_length;
    const int64_t *progress; /* (N, k + width), of each row with each of its candidates, the required
                              * ones last: those of each progress take turns; or NULL */
} Search;

/* What a step of a search gives. N = B K. */
typedef struct {
    int64_t *parents, *next_tokens; /* (N,) */
    uint8_t *done;                  /* (B,), stays set */
    int64_t *finished, *is_moved;   /* (1,): hypotheses in the arrays below; is any row not its own
                                     * parent? */
    int64_t *steps;                 /* (1,), that s2s_decode_steps took */
    int64_t *finished_sentences;    /* (B (2 K + 1),) */
    double *finished_scores;        /* the same; NaN in greedy search, which ranks nothing */
    int64_t *finished_tokens;       /* (B (2 K + 1), room), as many as the sentence's length */
    double *finished_logp;          /* the same */
} StepOutput;

/* Outputs are packed in panels of so many. */
S2S_API int32_t s2s_panel_width(void);
/* The panels of W (out_features, in_features), filled up with zeros; in int8 also its rows' sums. */
S2S_API void s2s_pack_float32(const float *weight, int64_t in_features, int64_t out_features,
                              float *panels);
S2S_API void s2s_pack_int8(const int8_t *weight, int64_t in_features, int64_t out_features,
                           int8_t *panels, int32_t *weight_sums);

/* x (rows, in_features) -> y (rows, out_features). */
S2S_API int64_t s2s_linear(const Linear *map, const float *x, int64_t rows, float *y,
                           void *workspace, int64_t size);
/* Hidden states of all tokens, (rows, dim). */
S2S_API int64_t s2s_encode(const Stack *encoder, const EncodeBatch *batch, float *hidden,
                           void *workspace, int64_t size);
/* The same with cells. */
S2S_API int64_t s2s_encode_recurrent(const RecurrentEncoder *encoder, const EncodeBatch *batch,
                                     float *hidden, void *workspace, int64_t size);
/* Hidden states of the new tokens, (rows, dim); caches and states are changed in place. */
S2S_API int64_t s2s_decode(const Decoder *decoder, const DecodeStep *step, float *hidden,
                           void *workspace, int64_t size);
/* Of the softmax of head(hidden), hidden (rows, in_features), the best of each row. With a
 * shortlist, of the softmax over the row's own list. */
S2S_API int64_t s2s_topk(const Linear *head, const float *hidden, int64_t rows, const TopK *topk,
                         void *workspace, int64_t size);
/* What a search does after a step, in two halves: the best outputs of the rows that are live, next to
 * each other, and what it makes of them: the next tokens, and the hypotheses that end. `topk` has
 * room for 2 K candidates of each row, in greedy search for one. */
S2S_API int64_t s2s_find_candidates(const Linear *head, const float *hidden, const TopK *topk,
                                    const Search *search, const StepOutput *output,
                                    void *workspace, int64_t size);
S2S_API int64_t s2s_choose(const TopK *topk, const Search *search, const StepOutput *output,
                           void *workspace, int64_t size);
/* s2s_decode, s2s_find_candidates and s2s_choose in turn, until a hypothesis ends, a sentence is done, or there were
 * `most` steps, for all of which caches have room. After each, rows take over the states of their
 * parents; before another, `step` and `search` move on by a token: tokens, positions, lengths.
 * hidden: (rows, dim), scratch. */
S2S_API int64_t s2s_decode_steps(const Decoder *decoder, DecodeStep *step, const Linear *head,
                                 const TopK *topk, Search *search, const StepOutput *output,
                                 int64_t most, float *hidden, void *workspace, int64_t size);

#endif
