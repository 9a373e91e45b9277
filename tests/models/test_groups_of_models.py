"""What a model does with groups of source tokens."""

import pytest
import torch
from helpers.builders import (
    SMALL,
    SOURCE_SIZE,
    TARGET_SIZE,
    assert_equal,
    small_model,
    source_batch,
)

from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.functional.context import token_groups
from seq2seq.models import Seq2Seq

# Ids 4, 5, 6 begin words; word 7 is complete; 8 and 9 end sentences.
MARKS = torch.zeros(SOURCE_SIZE, 3, dtype=torch.bool)
MARKS[[EOS, PAD, 4, 5, 6], 0] = True
MARKS[[EOS, PAD, 7], 1] = True
MARKS[[EOS, PAD, 8, 9], 2] = True


@pytest.fixture(params=SMALL)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    built = small_model(request.param, "attn=hierarchical_context")
    built.group_marks = MARKS
    return built


def test_groups_on_paper() -> None:
    ids = torch.tensor([[10, 11, 4, 7, 10, 8, 9, 5, 8, EOS, PAD]])
    of_words, of_sentences = token_groups(ids, MARKS)[0, :-1].T.tolist()
    assert of_words == [0, 0, 1, 1, 2, 2, 2, 3, 3, 4]
    assert of_sentences == [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert token_groups(ids, MARKS[:, :2]).shape == (1, 11, 1)


def test_step_by_step_is_teacher_forcing(model: Seq2Seq) -> None:
    source, target = source_batch(9, 5), torch.randint(4, TARGET_SIZE, (2, 6))
    target[:, 0] = BOS
    expected = model(source, target).hidden
    state = model.start(model.encode(source))
    steps = [model.step(target[:, t : t + 1], state).hidden for t in range(6)]
    assert_equal(torch.cat(steps, dim=1), expected)


def test_a_row_alone_is_the_row_in_a_batch(model: Seq2Seq) -> None:
    source, target = source_batch(9, 5, size=12), torch.randint(4, TARGET_SIZE, (2, 6))
    together = model(source, target).hidden
    for row, length in enumerate((9, 5)):
        alone = model(source[row : row + 1, :length], target[row : row + 1]).hidden
        assert_equal(together[row : row + 1], alone)


def test_every_attention_to_the_source_reads_groups(model: Seq2Seq) -> None:
    source, target = source_batch(9, 5), torch.randint(4, TARGET_SIZE, (2, 6))
    encoded, told = model.encode(source), model(source, target).hidden
    # The same states, but groups that only cross-attention could miss.
    untold = model.step(target, model.start(encoded._replace(groups=None))).hidden
    assert not torch.allclose(untold, told)
    model.group_marks = None
    assert torch.allclose(model.encode(source).states, encoded.states) == (
        not hasattr(model.encoder, "__len__")  # an RNN's encoder has no attention
    )


def test_marks_follow_the_model_but_are_not_among_its_weights(model: Seq2Seq) -> None:
    assert not any("marks" in name for name in model.state_dict())
    assert model.to("meta").group_marks is not None
    assert model.group_marks is not None and model.group_marks.is_meta
