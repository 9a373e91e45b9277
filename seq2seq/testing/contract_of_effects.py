"""The contract of attention, continued: what a class declares or accepts has an effect."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.attention.scores import SCORES
from seq2seq.testing.subject import DIM, Subject, make_inputs
from seq2seq.testing.tensors import assert_equal, randn

# Options that mean the same in every class, with values to compare.
OPTIONS = {"bias": (False, True), "num_heads": (1, 2), "num_kv_heads": (1, 2), "score": (*SCORES,)}


def answers_of(subjects: Sequence[Subject], size: int = 7) -> list[Tensor]:
    """The answers of several mechanisms to the same queries."""
    x, source, mask, real = make_inputs(subjects[0], size)
    return [subject.build()(x, source, mask).out[real] for subject in subjects]


@torch.no_grad()
def check_option(subjects: Sequence[Subject]) -> None:
    """Every value of an option that is accepted has an answer of its own.

    Args:
        subjects: that differ in one option only.
    """
    found = zip(subjects, answers_of(subjects), strict=True)
    for (_, first), (other, second) in itertools.combinations(found, 2):
        same = first.shape == second.shape and torch.allclose(first, second)
        assert not same, f"it answers as with {other}: it ignores the option"


@torch.no_grad()
def check_dropout(subjects: Sequence[Subject]) -> None:
    """Dropout changes the answers in training, at random, and at no other time.

    Args:
        subjects: one without dropout, then the same with it.
    """
    without, idle = answers_of(subjects, 65)
    assert_equal(idle, without)
    x, source, mask, real = make_inputs(subjects[1], 65)
    attention = subjects[1].build().train()
    once, again = (attention(x, source, mask).out[real] for _ in range(2))
    assert not torch.allclose(once, again), "it accepts `dropout` and drops nothing in training"


@torch.no_grad()
def check_positions(subjects: Sequence[Subject]) -> None:
    """A scheme of positions that `supports` names changes the answers, and shows it the order of
    tokens. One that reads tokens in their order anyway may do without.

    Args:
        subjects: one without positions, then the same with a scheme.
    """
    plain, placed = subjects
    without, given = answers_of(subjects)
    assert any(effects_of_order(placed)), "it is blind to the order of tokens"
    is_obeyed = all(effects_of_order(plain)) or not torch.allclose(without, given)
    assert is_obeyed, "it answers as without positions"


def effects_of_order(subject: Subject) -> list[bool]:
    """For each exchange of two neighbours: does it change what a later token is answered?"""
    attention, x = subject.build(), randn(1, 7, DIM)
    orders = ([*range(i), i + 1, i, *range(i + 2, 7)] for i in range(5))
    last = attention(x).out[:, -1]
    return [not torch.allclose(attention(x[:, order]).out[:, -1], last) for order in orders]


@torch.no_grad()
def check_groups(subject: Subject) -> None:
    """Groups of tokens change the answers where `reads_groups` says so, and nowhere else."""
    attention, (x, source, mask, real) = subject.build(), make_inputs(subject, 7)
    groups = [(torch.arange(7) // size).expand(3, 7)[..., None] for size in (2, 3)]
    pairs, triples = (attention(x, source, mask, groups=each).out[real] for each in groups)
    found, said = not torch.allclose(pairs, triples), attention.reads_groups
    assert found == said, f"groups change the answer: {found}; `reads_groups` says {said}"
