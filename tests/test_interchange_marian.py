"""`.npz` files of Marian against its formulas in NumPy, in float64."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from piece_models import model_bytes

from seq2seq.errors import Seq2SeqError
from seq2seq.interchange.imported import ImportedModel
from seq2seq.interchange.marian import DESCRIPTION, read_marian
from seq2seq.interchange.marian_options import NOTHING, ONLY, READ
from seq2seq.symbols import BOS, EOS, PAD, UNK

E, F, HEADS = 16, 20, 4
PIECES = {"\u2581": -2.0, "a": -3.0, "b": -3.5, "ab": -5.0, "\u2581a": -4.0, "c": -6.0}
V = len(PIECES) + 3  # and <unk>, <s>, </s> of the model
NONE = (None, None)
OPTIONS = {
    "type": "transformer",
    "enc-depth": 2,
    "dec-depth": 1,
    "dim-emb": E,
    "transformer-heads": HEADS,
    "transformer-dim-ffn": F,
    "transformer-ffn-activation": "relu",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-top": "",
    "transformer-decoder-autoreg": "self-attention",
    "tied-embeddings-all": True,
    "tied-embeddings": False,
}
RECURRENT = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"}
PRE = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}
SEPARATE = {"tied-embeddings-all": False, "tied-embeddings": True}
VARIANTS: list[dict[str, Any]] = [
    {},
    RECURRENT,
    {**RECURRENT, **PRE, "dec-depth": 2, "transformer-ffn-activation": "swish"},
    {**PRE, **SEPARATE},
    {**RECURRENT, "tied-embeddings-all": False, "enc-depth": 1},
    {**SEPARATE, "tied-embeddings-src": True},
    {"tied-embeddings-all": False, "tied-embeddings-src": True},
]
every_variant = pytest.mark.parametrize("changes", VARIANTS, ids=str)


class Marian:
    """A random model: its arrays, and what it computes, by the formulas of Marian."""

    def __init__(self, **changes: Any) -> None:
        self.options = {**OPTIONS, **changes}
        self.pre = self.options["transformer-preprocess"] == "n"
        self.random = np.random.default_rng(1)
        self.arrays: dict[str, np.ndarray] = {}
        self.recurrent = self.options["transformer-decoder-autoreg"] == "rnn"
        tied_all, tied = (self.options[f"tied-embeddings{n}"] for n in ("-all", ""))
        shared = tied_all or self.options.get("tied-embeddings-src")
        for name in ["Wemb"] if shared else ["encoder_Wemb", "decoder_Wemb"]:
            self.array(name, V, E)
        if not tied_all and not tied:
            self.array("decoder_ff_logit_out_W", E, V)
        self.array("decoder_ff_logit_out_b", 1, V)
        for stack, depth in (("encoder", "enc-depth"), ("decoder", "dec-depth")):
            for layer in range(1, self.options[depth] + 1):
                self.layer(f"{stack}_l{layer}", stack == "decoder")
            if self.pre:
                self.norm(f"{stack}_top", "")

    def with_options(self, options: dict[str, Any]) -> "Marian":
        """The same arrays, described in another way."""
        self.options = {**self.options, **options}
        return self

    def array(self, name: str, *shape: int, mean: float = 0.0) -> None:
        self.arrays[name] = (mean + self.random.normal(0, 0.4, shape)).astype(np.float32)

    def norm(self, name: str, ending: str | None = None) -> None:
        ending = ("_pre" if self.pre else "") if ending is None else ending
        self.array(f"{name}_ln_scale{ending}", 1, E, mean=1.0)
        self.array(f"{name}_ln_bias{ending}", 1, E)

    def layer(self, at: str, decoder: bool) -> None:
        if decoder and self.recurrent:
            self.array(f"{at}_rnn_W", E, E)
            self.array(f"{at}_rnn_Wf", E, E)
            self.array(f"{at}_rnn_bf", 1, E)
            self.norm(f"{at}_rnn" if self.pre else f"{at}_rnn_ffn")
        for part in ["self", "context"] if decoder else ["self"]:
            if part == "self" and decoder and self.recurrent:
                continue
            for letter in "qkvo":
                self.array(f"{at}_{part}_W{letter}", E, E)
                self.array(f"{at}_{part}_b{letter}", 1, E)
            self.norm(f"{at}_{part}_Wo")
        for number, (rows, columns) in (("1", (E, F)), ("2", (F, E))):
            self.array(f"{at}_ffn_W{number}", rows, columns)
            self.array(f"{at}_ffn_b{number}", 1, columns)
        self.norm(f"{at}_ffn_ffn")

    def write(self, folder: Path) -> Path:
        lines = [f"{key}: {self.as_yaml(value)}" for key, value in self.options.items()]
        sizes = [] if "dim-vocabs" in self.options else ["dim-vocabs:", f"  - {V}", f"  - {V}"]
        text = "\n".join([*lines, *sizes, ""])
        special = np.frombuffer(text.encode() + b"\0", np.int8)
        np.savez(folder / "model.npz", **{DESCRIPTION: special}, **self.arrays)
        (folder / "vocab.spm").write_bytes(model_bytes(PIECES))
        return folder / "model.npz"

    def as_yaml(self, value: Any) -> str:
        return json.dumps(value)

    # The formulas, for one sentence: x (T, E).

    def get(self, name: str) -> np.ndarray:
        return self.arrays[name].astype(np.float64)

    def normed(self, x: np.ndarray, name: str, ending: str | None = None) -> np.ndarray:
        ending = ("_pre" if self.pre else "") if ending is None else ending
        centred = x - x.mean(-1, keepdims=True)
        unit = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return unit * self.get(f"{name}_ln_scale{ending}") + self.get(f"{name}_ln_bias{ending}")

    def around(self, x: np.ndarray, name: str, inside: Any) -> np.ndarray:
        if self.pre:
            return x + inside(self.normed(x, name))
        return self.normed(x + inside(x), name)

    def mapped(self, x: np.ndarray, at: str, letter: str) -> np.ndarray:
        return x @ self.get(f"{at}_W{letter}") + self.get(f"{at}_b{letter}")

    def attention(self, at: str, x: np.ndarray, source: np.ndarray, causal: bool) -> np.ndarray:
        q, k, v = (
            self.mapped(each, at, letter).reshape(len(each), HEADS, -1).transpose(1, 0, 2)
            for each, letter in ((x, "q"), (source, "k"), (source, "v"))
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(E / HEADS)
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return self.mapped((weights @ v).transpose(1, 0, 2).reshape(len(x), E), at, "o")

    def unit(self, at: str, x: np.ndarray) -> np.ndarray:
        state, states = np.zeros(E), []
        for token in x:
            f = 1 / (1 + np.exp(-self.mapped(token, at, "f")[0]))
            state = f * state + (1 - f) * (token @ self.get(f"{at}_W"))
            states.append(np.maximum(state, 0))
        return np.stack(states)

    def feed(self, at: str, x: np.ndarray) -> np.ndarray:
        hidden = self.mapped(x, at, "1")
        if self.options["transformer-ffn-activation"] == "relu":
            hidden = np.maximum(hidden, 0)
        else:
            hidden = hidden / (1 + np.exp(-hidden))
        return self.mapped(hidden, at, "2")

    def table(self, side: str) -> np.ndarray:
        return self.get("Wemb" if "Wemb" in self.arrays else f"{side}_Wemb")

    def placed(self, x: np.ndarray) -> np.ndarray:
        rates = np.exp(-np.log(10_000) * np.arange(E // 2) / (E // 2 - 1))
        angles = np.arange(len(x))[:, None] * rates
        return x * np.sqrt(E) + np.concatenate((np.sin(angles), np.cos(angles)), axis=1)

    def states(self, source: list[int]) -> np.ndarray:
        x = self.placed(self.table("encoder")[source])
        for layer in range(1, self.options["enc-depth"] + 1):
            at = f"encoder_l{layer}"
            x = self.around(
                x, f"{at}_self_Wo", lambda y, a=f"{at}_self": self.attention(a, y, y, False)
            )
            x = self.around(x, f"{at}_ffn_ffn", lambda y, a=f"{at}_ffn": self.feed(a, y))
        return self.normed(x, "encoder_top", "") if self.pre else x

    def logits(self, source: list[int], target: list[int]) -> np.ndarray:
        """Of the word after each of those of the target, which begins with nothing."""
        memory = self.states(source)
        x = self.placed(np.concatenate((np.zeros((1, E)), self.table("decoder")[target])))
        for layer in range(1, self.options["dec-depth"] + 1):
            at = f"decoder_l{layer}"
            if self.recurrent:
                norm = f"{at}_rnn" if self.pre else f"{at}_rnn_ffn"
                x = self.around(x, norm, lambda y, a=f"{at}_rnn": self.unit(a, y))
            else:
                x = self.around(
                    x, f"{at}_self_Wo", lambda y, a=f"{at}_self": self.attention(a, y, y, True)
                )
            x = self.around(
                x,
                f"{at}_context_Wo",
                lambda y, a=f"{at}_context": self.attention(a, y, memory, False),
            )
            x = self.around(x, f"{at}_ffn_ffn", lambda y, a=f"{at}_ffn": self.feed(a, y))
        x = self.normed(x, "decoder_top", "") if self.pre else x
        own = "decoder_ff_logit_out_W"
        out = self.get(own) if own in self.arrays else self.table("decoder").T
        return x @ out + self.get("decoder_ff_logit_out_b")


# Their ids of ours: <pad> and <s> have none; the model's order is <unk>, <s>, </s>, pieces, and its
# <s> is a piece like any.
THEIRS = [-1, -1, 2, 0, 1, *range(3, V)]


@every_variant
@torch.no_grad()
def test_logits_are_those_of_the_formulas(changes: dict[str, Any], tmp_path: Path) -> None:
    marian = Marian(**changes)
    imported = read_marian(marian.write(tmp_path), [tmp_path / "vocab.spm"], ("de", "en"))
    model = imported.to_saved().build().double()
    assert imported.config["data"]["source"] == "de" and imported.source.size == len(THEIRS)
    for source, target in (([4, 6, 5, 4, EOS], [5, 7, 7, 9, 4]), ([9, EOS], [4])):
        hidden = model(torch.tensor([source]), torch.tensor([[BOS, *target]])).hidden
        logits = model.logits(hidden)[0].numpy()
        expected = marian.logits([THEIRS[i] for i in source], [THEIRS[i] for i in target])
        ours = [EOS, 3, *range(4, len(THEIRS))]
        np.testing.assert_allclose(
            logits[:, ours], expected[:, [THEIRS[i] for i in ours]], rtol=0, atol=1e-4
        )
        assert (logits[:, [PAD, BOS]] < -9000).all()


@torch.no_grad()
def test_pieces_are_read_and_decoded(tmp_path: Path) -> None:
    imported = read_marian(Marian().write(tmp_path), [tmp_path / "vocab.spm"], NONE)
    [ids] = imported.source.encode_batch(["ab a"])
    assert imported.target.decode_batch([ids]) == ["ab a"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": "s2s"}, "type='s2s' should be 'transformer'"),
        ({"transformer-decoder-autoreg": "average-attention"}, "'self-attention' or 'rnn'"),
        ({"transformer-decoder-autoreg": "rnn", "dec-cell": "gru"}, "dec-cell='gru'"),
        ({"transformer-ffn-activation": "gelu"}, "'gelu' should be 'swish' or 'relu'"),
        ({"transformer-postprocess": "dhn"}, "'dhn'"),
        ({"transformer-tied-layers": [1, 1]}, "transformer-tied-layers"),
        ({"transformer-train-positions": True}, "transformer-train-positions=True"),
        ({"enc-depth": 10**12}, "enc-depth=1000000000000 should be a whole number from 1 to"),
        ({"dim-emb": 18}, "num_heads=4"),
        ({"dim-emb": 32}, r"Wemb is \(10, 16\)"),
        ({"dec-depth": 2}, "the weights lack decoder_l2_self_Wq"),
        ({"transformer-heads": 3}, "num_heads=3"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    marian = Marian()
    marian.options |= changes
    with pytest.raises(Seq2SeqError, match=words):
        read_marian(marian.write(tmp_path), [tmp_path / "vocab.spm"], NONE)


def imported_from(marian: Marian, folder: Path, *more: str) -> ImportedModel:
    path = marian.write(folder)
    return read_marian(path, [folder / name for name in ("vocab.spm", *more)], NONE)


@pytest.mark.parametrize("name", ONLY)
@pytest.mark.parametrize("value", ["else", 7, [1, 2]], ids=str)
def test_every_option_that_it_lacks_is_named(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(Seq2SeqError, match=rf"model\.yml: .*{name}=.* should be"):
        imported_from(Marian().with_options({name: value}), tmp_path)


def test_options_of_training_and_of_other_models_change_nothing(tmp_path: Path) -> None:
    usual = imported_from(Marian(), tmp_path)
    for value in (True, 3, "else", ["x"], None):
        changed = imported_from(Marian().with_options(dict.fromkeys(NOTHING, value)), tmp_path)
        assert changed.config == usual.config
        assert all(torch.equal(changed.weights[name], x) for name, x in usual.weights.items())
    assert not NOTHING & READ and {"after", "comet-mix", "workspace"} <= NOTHING


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transformer-disable-position-embeddings", True),
        ("right-left", True),
        ("transformer-attention-mask", "alibi"),
        ("transformer-alibi-trainable", True),
        ("transformer-pool", True),
        ("transformer-train-position-embeddings", True),
        ("ulr", True),
        ("output-omit-bias", True),
        ("input-types", ["sequence", "class"]),
        ("transformer-dim-model", 16),
        ("transformer-no-such-option", False),
        ("max-length-factor", 3),
    ],
)
def test_what_may_change_the_model_is_refused_by_name(
    name: str, value: Any, tmp_path: Path
) -> None:
    with pytest.raises(Seq2SeqError, match=f"not supported: {name}="):
        imported_from(Marian().with_options({name: value}), tmp_path)


def test_options_of_the_search_become_ours(tmp_path: Path) -> None:
    marian = Marian().with_options({"beam-size": 7, "normalize": 0.6})
    decode = imported_from(marian, tmp_path).config["decode"]
    assert (decode["beam_size"], decode["length_penalty"]) == (7, 0.6)


@pytest.mark.parametrize("sizes", [[], [0, 0], [V, V], None])
def test_sizes_of_vocabularies_are_theirs_or_not_given(sizes: Any, tmp_path: Path) -> None:
    assert imported_from(Marian().with_options({"dim-vocabs": sizes}), tmp_path).weights
    with pytest.raises(Seq2SeqError, match=r"dim-vocabs=.* should be \[9, 9\]"):
        imported_from(Marian().with_options({"dim-vocabs": [V, V - 1]}), tmp_path)


@pytest.mark.parametrize(
    ("stored", "described"),
    [({"enc-depth": 3}, {"enc-depth": 2}), ({"dec-depth": 2}, {"dec-depth": 1}), (PRE, None)],
)
def test_tensors_that_nothing_reads_are_named(
    stored: dict[str, Any], described: dict[str, Any] | None, tmp_path: Path
) -> None:
    marian = Marian(**stored)
    marian.options = {**OPTIONS, **(described or {})}
    with pytest.raises(Seq2SeqError, match=r"(nothing reads .* such as \w+_|weights lack \w+_ln_)"):
        imported_from(marian, tmp_path)


def test_two_tables_for_one_are_named(tmp_path: Path) -> None:
    marian = Marian()
    marian.array("encoder_Wemb", V, E)
    with pytest.raises(Seq2SeqError, match="nothing reads 1 of the tensors, such as encoder_Wemb"):
        imported_from(marian, tmp_path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_named(value: float, tmp_path: Path) -> None:
    for name in ("Wemb", "encoder_l2_self_Wq", "decoder_ff_logit_out_b", "decoder_l1_ffn_b1"):
        marian = Marian()
        marian.arrays[name][0, 3] = value
        with pytest.raises(Seq2SeqError, match=f"{name} has values that are not finite"):
            imported_from(marian, tmp_path)


def test_quantised_weights_are_named(tmp_path: Path) -> None:
    marian = Marian()
    marian.arrays["encoder_l1_self_Wq"] = np.ones((E, E), np.int8)
    with pytest.raises(
        Seq2SeqError, match=r"encoder_l1_self_Wq .* of int8, .* before it was quant"
    ):
        imported_from(marian, tmp_path)


# Ids of a `vocab.yml`: those of OPUS-MT begin with "</s>", "<unk>".
NUMBERED = ["</s>", "<unk>", "b", "a", "no", "\u2581", "ab", "\u2581a", "1"]


@torch.no_grad()
def test_pieces_that_a_yaml_file_numbers_have_its_ids(tmp_path: Path) -> None:
    marian = Marian()
    assert len(NUMBERED) == V
    plain = ["no", "1", "a"]  # what YAML would read as something else, or as it is
    lines = [f"{n if n in plain else json.dumps(n)}: {i}\n" for i, n in enumerate(NUMBERED)]
    (tmp_path / "vocab.yml").write_text("".join(lines), encoding="utf-8")
    imported = imported_from(marian, tmp_path, "vocab.yml")
    names = imported.source.symbols()
    [ids] = imported.source.encode_batch(["ab a c b"])  # the model has "c", the file has not
    assert [names[i] for i in ids] == ["\u2581", "ab", "\u2581a", "\u2581", "c", "\u2581", "b"]
    model = imported.to_saved().build().double()
    theirs = [NUMBERED.index(names[i]) if names[i] in NUMBERED else 1 for i in ids]
    hidden = model(torch.tensor([[*ids, EOS]]), torch.tensor([[BOS, ids[0]]])).hidden
    expected = marian.logits([*theirs, 0], [theirs[0]])
    ours = [EOS, UNK, *range(4, V + 2)]
    np.testing.assert_allclose(
        model.logits(hidden)[0][:, ours].numpy(), expected, rtol=0, atol=1e-4
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 0\nb: 1\na: 2\n", r"vocab\.yml:3: 'a' has an id already, 0"),
        ("a: 0\nb: x\n", r"vocab\.yml:2: expected `piece: id`, and a whole number"),
        ("a: 0\nb: -1\n", r"vocab\.yml:2: expected"),
        ("a: 0\nb: 1.0\n", r"vocab\.yml:2: expected"),
        ("a: 0\n? [b, c]\n: 1\n", r"vocab\.yml:2: expected"),
        ("a: &x 0\nb: [*x, *x]\n", r"vocab\.yml:2: expected"),
        ("</s>: 0\n<unk>: 2\n", "ids from 0 on"),
        ("a: 0\nb: 1\n", "no </s> and no <unk>"),
        ("- a\n- b\n", "should hold a line `piece: id`"),
        ("a: [", "is not plain YAML"),
        ("", "should hold a line"),
    ],
)
def test_a_yaml_file_of_other_things_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.yml").write_text(text, encoding="utf-8")
    with pytest.raises(Seq2SeqError, match=words):
        imported_from(Marian(), tmp_path, "vocab.yml")


def test_three_vocabularies_are_too_many(tmp_path: Path) -> None:
    with pytest.raises(Seq2SeqError, match="3 SentencePiece vocabularies .* expected one"):
        read_marian(Marian().write(tmp_path), [tmp_path / "vocab.spm"] * 3, NONE)
