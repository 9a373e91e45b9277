"""`.npz` files of Marian, compared with its formulas in NumPy, in float64."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.marian import NONE, OPTIONS, PRE, RECURRENT, E, Marian, V

from seq2seq.base.errors import Seq2SeqError
from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.interchange.imported import ImportedModel
from seq2seq.interchange.marian import read_marian
from seq2seq.interchange.marian_options import NOTHING, ONLY, READ

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


# Their ids of ours: <pad> and <s> have none; the model's order is <unk>, <s>, </s>, pieces, and its
# <s> is a piece like any.
THEIRS = [-1, -1, 2, 0, 1, *range(3, V)]


@every_variant
@torch.no_grad()
def test_logits_are_those_of_the_formulas(changes: dict[str, Any], tmp_path: Path) -> None:
    marian = Marian(**changes)
    imported = read_marian(marian.write(tmp_path), [tmp_path / "vocab.spm"], ("de", "en"))
    model = imported.saved.build().double()
    assert imported.saved.config["data"]["source"] == "de"
    assert imported.saved.source.size == len(THEIRS)
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
    [ids] = imported.saved.source.encode_batch(["ab a"])
    assert imported.saved.target.decode_batch([ids]) == ["ab a"]


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
def test_unsupported_models_are_refused_by_name(
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
def test_every_unsupported_option_is_named(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(Seq2SeqError, match=rf"model\.yml: .*{name}=.* should be"):
        imported_from(Marian().with_options({name: value}), tmp_path)


def test_options_of_training_and_of_other_models_change_nothing(tmp_path: Path) -> None:
    usual = imported_from(Marian(), tmp_path)
    for value in (True, 3, "else", ["x"], None):
        changed = imported_from(Marian().with_options(dict.fromkeys(NOTHING, value)), tmp_path)
        assert changed.saved.config == usual.saved.config
        assert all(
            torch.equal(changed.saved.weights[name], x) for name, x in usual.saved.weights.items()
        )
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
def test_options_that_may_change_the_model_are_refused_by_name(
    name: str, value: Any, tmp_path: Path
) -> None:
    with pytest.raises(Seq2SeqError, match=f"not supported: {name}="):
        imported_from(Marian().with_options({name: value}), tmp_path)


def test_options_of_the_search_are_imported(tmp_path: Path) -> None:
    marian = Marian().with_options({"beam-size": 7, "normalize": 0.6})
    decode = imported_from(marian, tmp_path).saved.config["decode"]
    assert (decode["beam_size"], decode["length_penalty"]) == (7, 0.6)


@pytest.mark.parametrize("sizes", [[], [0, 0], [V, V], None])
def test_wrong_sizes_of_vocabularies_are_refused(sizes: Any, tmp_path: Path) -> None:
    assert imported_from(Marian().with_options({"dim-vocabs": sizes}), tmp_path).saved.weights
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
    with pytest.raises(Seq2SeqError, match=r"(not used, such as \w+_|weights lack \w+_ln_)"):
        imported_from(marian, tmp_path)


def test_a_second_table_of_embeddings_is_named(tmp_path: Path) -> None:
    marian = Marian()
    marian.array("encoder_Wemb", V, E)
    with pytest.raises(Seq2SeqError, match="1 tensor.s. are not used, such as encoder_Wemb"):
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
def test_pieces_have_the_ids_of_a_yaml_file(tmp_path: Path) -> None:
    marian = Marian()
    assert len(NUMBERED) == V
    plain = ["no", "1", "a"]  # what YAML would read as something else, or as it is
    lines = [f"{n if n in plain else json.dumps(n)}: {i}\n" for i, n in enumerate(NUMBERED)]
    (tmp_path / "vocab.yml").write_text("".join(lines), encoding="utf-8")
    imported = imported_from(marian, tmp_path, "vocab.yml")
    names = imported.saved.source.symbols()
    [ids] = imported.saved.source.encode_batch(["ab a c b"])  # the model has "c", the file has not
    assert [names[i] for i in ids] == ["\u2581", "ab", "\u2581a", "\u2581", "c", "\u2581", "b"]
    model = imported.saved.build().double()
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
        ("a: 0\nb: x\n", r"vocab\.yml:2: expected `piece: id`, with a whole number"),
        ("a: 0\nb: -1\n", r"vocab\.yml:2: expected"),
        ("a: 0\nb: 1.0\n", r"vocab\.yml:2: expected"),
        ("a: 0\n? [b, c]\n: 1\n", r"vocab\.yml:2: expected"),
        ("a: &x 0\nb: [*x, *x]\n", r"vocab\.yml:2: expected"),
        ("</s>: 0\n<unk>: 2\n", "number its pieces 0, 1, 2"),
        ("a: 0\nb: 1\n", "no </s> and no <unk>"),
        ("- a\n- b\n", "should hold a line `piece: id`"),
        ("a: [", "is not plain YAML"),
        ("", "should hold a line"),
    ],
)
def test_a_wrong_yaml_file_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.yml").write_text(text, encoding="utf-8")
    with pytest.raises(Seq2SeqError, match=words):
        imported_from(Marian(), tmp_path, "vocab.yml")


def test_three_vocabularies_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Seq2SeqError, match="3 SentencePiece models .* expected one"):
        read_marian(Marian().write(tmp_path), [tmp_path / "vocab.spm"] * 3, NONE)
