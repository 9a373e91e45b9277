"""The choice of layer and head: guessed, described, and saved beside the checkpoint."""

import hashlib
import json
import math
from pathlib import Path

import pytest
import torch

from seq2seq.alignment.choice import (
    Alignment,
    Choice,
    check_choice,
    choice_file,
    describe_choice,
    guess_choice,
    layer_entropies,
    load_choice,
    save_choice,
)
from seq2seq.alignment.links import words
from seq2seq.base.errors import ConfigError, DataError

# Two layers of two heads, two target words, two source words and the end. In the first layer the
# heads look at different words, so that their mean is blurred; in the second they agree.
FIRST = [[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]
SECOND = [[[0.0, 0.9, 0.1], [0.8, 0.0, 0.2]], [[0.0, 0.7, 0.3], [0.4, 0.0, 0.6]]]
WORDS = words("a b"), words("x y")
# One step later, the layers have changed places.
ALIGNMENT = Alignment(*WORDS, torch.tensor([[FIRST, SECOND], [SECOND, FIRST]]))


def test_the_sharpest_layer_is_the_one_whose_heads_agree() -> None:
    entropies = layer_entropies(torch.tensor([FIRST, SECOND]).unsqueeze(1))
    assert entropies.shape == (2, 1, 2)
    # Of the blurred layer the means are (1/2, 1/2, 0) and (1/2, 0, 1/2): one bit each.
    torch.testing.assert_close(entropies[0, 0], torch.tensor([2.0, 2.0]).log())
    # Of the other one they are (0, 0.8, 0.2) and (0.6, 0, 0.4).
    expected = [-sum(p * math.log(p) for p in row) for row in ((0.8, 0.2), (0.6, 0.4))]
    torch.testing.assert_close(entropies[1, 0], torch.tensor(expected))


def test_the_guess_is_the_layer_that_the_checkpoint_names() -> None:
    assert guess_choice({"sharpest_layer": 2}, 3) == Choice(0, 1, None, competing=True)
    # Older checkpoints name none: the last layer but one, and never the first of several.
    for config in ({}, {"sharpest_layer": None}):
        guesses = [guess_choice(config, layers).layer for layers in (1, 2, 3, 6)]
        assert guesses == [0, 1, 1, 4]


def test_source_words_compete_unless_the_choice_says_otherwise() -> None:
    # The second source word attracts all target words, the first only part of one.
    given = Alignment(*WORDS, torch.tensor([[0.4, 0.6, 0.0], [0.1, 0.9, 0.0]]).view(1, 1, 1, 2, 3))
    assert given.links(Choice(0, 0, None)) == {(0, 0), (1, 1)}
    assert given.links(Choice(0, 0, None, competing=False)) == {(1, 0), (1, 1)}


def test_a_layer_or_head_that_does_not_exist_is_named_counting_from_one() -> None:
    for layer, head, what in ((-1, None, "layer 0"), (2, None, "layer 3"), (1, -1, "head 0")):
        with pytest.raises(ConfigError, match=f"{what} does not exist: there are 1 ... "):
            check_choice(Choice(0, layer, head), 2, 4)
    with pytest.raises(ConfigError, match=r"head 5 does not exist: there are 1 ... 4"):
        check_choice(Choice(0, 1, 4), 2, 4)
    check_choice(Choice(1, 1, 3), 2, 4)


def test_a_choice_is_described_counting_from_one() -> None:
    assert describe_choice(Choice(0, 0, None), 2, 4) == "decoder layer 1 of 2, all heads"
    assert (
        describe_choice(Choice(1, 1, 2), 2, 4)
        == "decoder layer 2 of 2, head 3 of 4, one step later"
    )
    strict = describe_choice(Choice(0, 0, None, 0.5, 0.25), 2, 4)
    assert strict.endswith("all heads, links of 50% or more, and of 25% of the largest")
    plain = describe_choice(Choice(0, 0, None, competing=False), 2, 4)
    assert plain.endswith("all heads, plain weights")
    apart = describe_choice(Choice(0, 0, None), 2, 4, apart=True)
    assert apart == "decoder layer 1 of 2, each of 4 heads"


def test_a_map_shows_one_head_or_the_mean_of_all() -> None:
    assert ALIGNMENT.map(Choice(0, 0, 1)).tolist() == FIRST[1]
    assert ALIGNMENT.map(Choice(1, 1, 1)).tolist() == FIRST[1]
    assert ALIGNMENT.map(Choice(0, 0, None)).tolist() == [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]


def test_links_are_those_of_the_map_and_none_where_it_looks_at_the_end() -> None:
    assert ALIGNMENT.links(Choice(0, 0, 1)) == {(1, 0)}
    assert ALIGNMENT.links(Choice(0, 1, 0)) == {(1, 0), (0, 1)}
    assert ALIGNMENT.links(Choice(0, 1, None)) == {(1, 0), (0, 1)}  # y: 0.6 on a, 0.4 on the end


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "best.ckpt"
    path.write_bytes(b"weights")
    return path


@pytest.mark.parametrize(
    "choice", [Choice(0, 0, None), Choice(1, 5, 0), Choice(0, 2, 7, 0.5, 0.5, False)]
)
def test_a_choice_is_loaded_as_it_was_saved(checkpoint: Path, choice: Choice) -> None:
    assert load_choice(checkpoint) is None
    path = save_choice(checkpoint, choice, aer=0.5)
    assert path.name == "best.alignment.json"
    assert load_choice(checkpoint) == choice
    assert {p.name for p in checkpoint.parent.iterdir()} == {"best.ckpt", path.name}


def test_the_file_counts_layers_and_heads_as_the_options_do(checkpoint: Path) -> None:
    entry = json.loads(save_choice(checkpoint, Choice(1, 1, 3, 0.5), aer=0.25).read_text())
    assert entry == {
        "checkpoint": "best.ckpt",
        "sha256": hashlib.sha256(b"weights").hexdigest(),
        "shift": 1,
        "layer": 2,
        "heads": 4,
        "threshold": 0.5,
        "near": 1.0,
        "competing": True,
        "aer": 0.25,
    }


def test_an_older_choice_was_made_for_plain_weights(checkpoint: Path) -> None:
    path = save_choice(checkpoint, Choice(0, 1, None, 0.5))
    entry = json.loads(path.read_text())
    entry["least"] = entry.pop("threshold")
    del entry["near"], entry["competing"]
    path.write_text(json.dumps(entry))
    assert load_choice(checkpoint) == Choice(0, 1, None, 0.5, 1.0, competing=False)


def test_the_choice_for_other_weights_is_not_used(checkpoint: Path) -> None:
    save_choice(checkpoint, Choice(0, 1, None))
    checkpoint.write_bytes(b"weights after more training")
    with pytest.warns(UserWarning, match=r"not used, .* other weights .* --choose"):
        assert load_choice(checkpoint) is None


DAMAGED = ("", "[]", "{}", '{"shift": 2, "layer": 1, "heads": "mean"}', "[" * 100_000)


@pytest.mark.parametrize("damage", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_choice_is_refused_by_name(checkpoint: Path, damage: str) -> None:
    choice_file(checkpoint).write_text(damage)
    with pytest.raises(DataError, match=r"best\.alignment\.json.* Choose again"):
        load_choice(checkpoint)


@pytest.mark.parametrize("key", ["shift", "layer", "heads", "threshold", "near", "competing"])
@pytest.mark.parametrize("value", [None, "all", "mean", True, -1, 1.5])
def test_an_impossible_choice_is_refused(checkpoint: Path, key: str, value: object) -> None:
    if (key, value) in (("heads", "mean"), ("competing", True)):
        return
    path = save_choice(checkpoint, Choice(0, 1, 1))
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(DataError, match="no choice"):
        load_choice(checkpoint)
