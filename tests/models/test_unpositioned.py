"""Source tokens without positions, such as feature tags, whose order does not matter."""

from typing import Any

import pytest
import torch
from helpers.builders import SOURCE_SIZE, assert_equal, build_model, model_config, small_model
from helpers.native_code import needs_native
from torch import Tensor

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS, PAD
from seq2seq.data.corpus.groups import mark_unpositioned
from seq2seq.decoding.precision import with_precision
from seq2seq.interchange.coverage import check_exportable
from seq2seq.models import Seq2Seq
from seq2seq.models.layers.positions import PositionScheme
from seq2seq.text.tokenization.words import WordLevel

TAGS = (4, 5, 6)  # of the source
OUTSIDE = torch.zeros(SOURCE_SIZE, dtype=torch.bool)
OUTSIDE[[*TAGS]] = True
SCHEMES = ("sinusoidal", "learned", "rope")
# Tags before and among letters, a row of letters alone, and padding.
SOURCE = torch.tensor(
    [[4, 5, 6, 7, 8, 9, 7, EOS], [6, 9, 8, 4, 10, EOS, PAD, PAD], [7, 7, 9, 11, EOS, PAD, PAD, PAD]]
)
POSITIONS = [[0, 0, 0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 3, 4], [0, 1, 2, 3, 4]]
LENGTHS = [len(row) for row in POSITIONS]


def tagged(scheme: str, *overrides: str) -> Seq2Seq:
    torch.manual_seed(3)
    model = small_model("transformer", f"position={scheme}", *overrides)
    model.unpositioned = OUTSIDE
    return model


def plain(scheme: str) -> Seq2Seq:
    """A model with the same weights in which every token has a position."""
    model = tagged(scheme)
    model.unpositioned = None
    return model


class Placed(PositionScheme):
    """A scheme with given positions, whatever positions it is called with."""

    def __init__(self, scheme: PositionScheme, places: list[int]):
        super().__init__(scheme.causal, 1)
        self.scheme, self.places = scheme, torch.tensor(places)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.scheme.embed(x, self.places)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.scheme.rotate(x, self.places)


def test_positions_on_paper() -> None:
    positions = tagged("rope").source_positions(SOURCE)
    assert [row[:n].tolist() for row, n in zip(positions, LENGTHS, strict=True)] == POSITIONS
    assert positions.max() < SOURCE.shape[1]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tokens_are_read_at_their_positions(scheme: str) -> None:
    """Compare with a model without the option, whose scheme is given these positions."""
    states = tagged(scheme).encode(SOURCE).states
    for row, places in enumerate(POSITIONS):
        reference: Any = plain(scheme)
        placed = Placed(reference.encoder_position, places)
        reference.encoder_position = placed
        for layer in reference.encoder:
            if scheme == "rope":
                layer.attention.place = layer.attention.place._replace(position=placed)
        expected = reference.encode(SOURCE[row : row + 1, : len(places)]).states
        assert_equal(states[row : row + 1, : len(places)], expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_order_of_tags_does_not_matter(scheme: str) -> None:
    other = SOURCE[:1, [2, 0, 1, 3, 4, 5, 6, 7]]
    among = SOURCE[:1, [3, 0, 4, 5, 1, 6, 2, 7]]  # letters in their order, tags anywhere
    model = tagged(scheme)
    letters = model.encode(SOURCE[:1]).states[:, 3:]
    assert_equal(model.encode(other).states[:, 3:], letters)
    assert_equal(model.encode(among).states[:, [0, 2, 3, 5, 7]], letters)
    ordered = plain(scheme)
    letters = ordered.encode(SOURCE[:1]).states[:, 3:]
    assert not torch.allclose(ordered.encode(other).states[:, 3:], letters, atol=1e-3)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_source_without_tags_is_read_as_usual(scheme: str) -> None:
    assert_equal(tagged(scheme).encode(SOURCE[2:]).states, plain(scheme).encode(SOURCE[2:]).states)


@needs_native
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_native_encoder_reads_tokens_at_the_same_positions(scheme: str) -> None:
    model = tagged(scheme).float()
    fast = with_precision(model, "float32")
    assert type(fast) is not type(model)
    for source in (SOURCE, SOURCE[:1], SOURCE[[1, 0]]):
        real = source != PAD
        assert_equal(fast.encode(source).states[real], model.encode(source).states[real])


def test_marks_follow_the_model_but_are_not_among_its_weights() -> None:
    model = tagged("rope")
    assert not any("unpositioned" in name for name in model.state_dict())
    moved = model.to("meta").unpositioned
    assert moved is not None and moved.is_meta


def test_a_pattern_matches_pieces_but_not_symbols() -> None:
    tokenizer = WordLevel(vocab_size=None).train(["<V> <PST> < > a <b", "b> <>"]).with_tags(["x"])
    for pattern, words in (
        ("<*>", {"<V>", "<PST>", "<>"}),
        ("<?*>", {"<V>", "<PST>"}),
        ("a", {"a"}),
    ):
        marks = mark_unpositioned(tokenizer, pattern)
        assert marks is not None and len(marks) == tokenizer.size
        texts = {tokenizer.texts()[i].strip() for i in marks.nonzero().flatten().tolist()}
        assert texts == words
    everything = mark_unpositioned(tokenizer, "*")
    assert everything is not None and not everything[:4].any() and not everything[-1]
    assert mark_unpositioned(tokenizer, None) is None
    with pytest.raises(ConfigError, match="'#' matches no piece of the source's tokenizer"):
        mark_unpositioned(tokenizer, "#")


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["position=alibi"], "measures distances along the row: type position=sinusoidal"),
        (["position=t5"], "measures distances along the row"),
        (["position=none"], "has no positions"),
        (
            ["position=rope", "attn@encoder_attn=longformer"],
            "Longformer in the encoder cannot do: type attn@encoder_attn=mha",
        ),
    ],
)
def test_schemes_without_positions_of_single_tokens_are_refused(
    overrides: list[str], reason: str
) -> None:
    config = model_config("transformer", *overrides, "model.unpositioned='<*>'")
    with torch.device("meta"), pytest.raises(ConfigError, match=reason):
        build_model(config, 9, 9)


def test_a_model_with_unpositioned_tokens_cannot_be_exported() -> None:
    with pytest.raises(ConfigError, match="no tokens without positions.*unpositioned=null"):
        check_exportable(tagged("sinusoidal"), "CTranslate2", lambda _: [])
