"""The contract of attention: rules that every mechanism obeys, as functions that raise
AssertionError if it does not.

`contract_of_memories` continues with the rules for decoding.
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.attention import Cost, Role
from seq2seq.attention.scores import SCORES
from seq2seq.base.registry import options_of
from seq2seq.testing.subject import (
    DIM,
    SIZES,
    Subject,
    assert_equal,
    gradients,
    lengths_of,
    make_inputs,
    mask_of,
    randn,
)

# Options that have the same meaning in every class, with values to compare.
OPTIONS = {"bias": (False, True), "num_heads": (1, 2), "num_kv_heads": (1, 2), "score": (*SCORES,)}


def check_declarations(subject: Subject) -> None:
    """The class declares its roles, the reasons why it lacks others, its cost, and its options."""
    mechanism = subject.mechanism
    assert mechanism.roles, "`roles` is empty"
    for role in Role:
        known = role in mechanism.roles or mechanism.role_refusals.get(role)
        assert known, f"it is not defined for {role.description}, and `role_refusals` has no reason"
    try:
        cost = mechanism.cost(subject.options)
    except AttributeError as error:
        raise AssertionError("it declares no cost: write `usual_cost = Cost(...)`") from error
    assert isinstance(cost, Cost) and all(cost), f"its cost should be three formulas, not {cost}"
    assert mechanism.shows_weights or mechanism.no_weights, "`no_weights` should give the reason"
    for name, option in options_of(mechanism).items():
        typed = option.annotation is not option.empty
        assert typed, f"the option {name} has no annotation to check values by"


def check_shapes(subject: Subject) -> None:
    """Outputs have the shape (N, T, out_dim), weights (N, H, T, S), both in the input's type."""
    for size in SIZES:
        attention, (x, source, mask, _) = subject.build(), make_inputs(subject, size)
        need_weights = attention.shows_weights
        out, weights = attention(x, source, mask, need_weights=need_weights)
        expected = (*x.shape[:2], attention.out_dim)
        assert out.shape == expected, f"outputs are {tuple(out.shape)}, not {expected}"
        assert out.dtype is x.dtype, f"outputs are {out.dtype}, not {x.dtype}"
        if need_weights:
            assert weights is not None, "it returns no weights, although `need_weights` is True"
            (N, T), H = x.shape[:2], weights.shape[1:2]
            right = weights.shape == (N, *H, T, size)
            assert right, f"weights are {tuple(weights.shape)}, not ({N}, H, {T}, {size})"


def check_padding(subject: Subject) -> None:
    """Padding is invisible: a row has the same outputs and gradients with and without padding."""
    for size in SIZES:
        attention, lengths = subject.build(), lengths_of(size)
        parameters = list(attention.parameters())
        x, source, mask, real = make_inputs(subject, size)
        assert mask is not None
        with torch.no_grad():
            (x if source is None else source).copy_(
                torch.where(mask[..., None], randn(3, size, DIM), 1e3 * randn(3, size, DIM))
            )
        attended = x if source is None else source
        out = attention(x, source, mask).out
        slope = randn(*out.shape) * real[..., None]
        of_attended, *of_parameters = gradients((out * slope).sum(), attended, *parameters)

        # The same rows, each computed alone, without padding.
        sums = [torch.zeros_like(p) for p in parameters]
        for row, length in enumerate(lengths):
            alone = attended[row : row + 1, :length].detach().requires_grad_()
            answer = attention(*((alone,) if source is None else (x[row : row + 1], alone))).out
            T = answer.shape[1]
            assert_equal(out[row : row + 1, :T], answer)
            of_alone, *more = gradients((answer * slope[row, :T]).sum(), alone, *parameters)
            assert_equal(of_attended[row : row + 1, :length], of_alone)
            assert not of_attended[row, length:].any(), "padding has a gradient"
            sums = [total + one for total, one in zip(sums, more, strict=True)]
        assert_equal(of_parameters, sums)


def check_only_padding(subject: Subject) -> None:
    """A row that is all padding has outputs of zero, and finite gradients."""
    attention, size = subject.build(), 7
    with torch.no_grad():
        for name, parameter in attention.named_parameters():
            if name.endswith("bias"):  # otherwise projections of zeros would not be zero
                parameter.zero_()
    given = make_inputs(subject, size)
    out = attention(given.x, given.source, mask_of([size, 0, 3], size)).out
    assert not out[1].any(), "the output of a row without keys is not zero"
    assert out[[0, 2]].any(), "the output of rows with keys is zero"
    for slope in gradients(out.square().sum(), *given.leaves, *attention.parameters()):
        assert slope.isfinite().all(), "a gradient is NaN or infinite"


def check_causality(subject: Subject) -> None:
    """The future is invisible to a decoder."""
    for size in SIZES:
        attention = subject.build()
        x = randn(2, size, DIM).requires_grad_()
        out = attention(x).out
        for now in {1, (size + 1) // 2, size}:
            future = torch.arange(size) >= now
            other = torch.where(future[:, None], 1e3 * randn(2, size, DIM), x)
            assert_equal(attention(other).out[:, :now], out[:, :now])
            assert_equal(attention(x[:, :now]).out, out[:, :now])
            (slope,) = torch.autograd.grad(out[:, :now].square().sum(), x, retain_graph=True)
            assert not slope[:, now:].any(), f"of {size} tokens, the first {now} read later ones"
            assert slope[:, :now].any(), "the past has no effect"


def check_what_answers_depend_on(subject: Subject) -> None:
    """Outputs depend on the states attended to, and on the queries if `reads_queries` is True."""
    attention, given = subject.build(), make_inputs(subject, 7)
    out = attention(given.x, given.source, given.mask).out[given.real]
    of_queries, *_, of_attended = gradients(out.square().sum(), given.x, *given.leaves)
    # In self-attention the queries are also the source. A gradient that cancels in the softmax is
    # not exactly zero, because of rounding.
    reads = attention.reads_queries or subject.role is not Role.CROSS
    found = bool(of_queries.abs().max() > 1e-9)
    assert found == reads, f"queries change the answer: {found}; `reads_queries` says {reads}"
    assert of_attended.any(), "nothing that is attended to changes the answer"


def check_parameters(subject: Subject) -> None:
    """Gradients reach every parameter."""
    attention, (x, source, mask, real) = subject.build(), make_inputs(subject, 7)
    attention(x, source, mask).out[real].square().sum().backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, f"{name} is not used"
        # A bias of the keys may cancel in the softmax; a matrix never does.
        assert parameter.dim() < 2 or parameter.grad.any(), f"{name} has no gradient"


def check_state_dict(subject: Subject) -> None:
    """Outputs depend only on values that are saved in a checkpoint."""
    saved, fresh = subject.build(seed=1), subject.build(seed=2)
    x, source, mask, _ = make_inputs(subject, 7)
    expected = saved(x, source, mask).out
    if saved.state_dict():
        assert not torch.allclose(fresh(x, source, mask).out, expected), "parameters do nothing"
    fresh.load_state_dict(saved.state_dict(), strict=True)
    same = torch.equal(fresh(x, source, mask).out, expected)
    assert same, "with the same parameters, the outputs differ"


def check_precisions(subject: Subject) -> None:
    """The mechanism runs in float64, float32 and bfloat16, forward and backward."""
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        attention, given = subject.build().to(dtype), make_inputs(subject, 65, dtype)
        mask = None if given.mask is None else mask_of([65, 7, 0], 65)
        out = attention(given.x, given.source, mask).out
        assert out.dtype is dtype, f"in {dtype} it answers in {out.dtype}"
        assert out.isfinite().all(), f"in {dtype} an answer is NaN or infinite"
        for slope in gradients(out.float().sum(), *given.leaves, *attention.parameters()):
            assert slope.dtype is dtype and slope.isfinite().all(), f"gradients in {dtype}"


def check_autocast(subject: Subject) -> None:
    """Inputs may have different precisions under autocast, as in mixed-precision training."""
    attention, (x, source, mask, real) = subject.build().float(), make_inputs(subject, 7)
    kinds = (torch.float32, torch.bfloat16)
    for training, of_x, of_source in itertools.product((True, False), kinds, kinds):
        other = None if source is None else source.to(of_source)
        with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(training):
            out = attention(x.to(of_x), other, mask).out
        assert out[real].isfinite().all(), f"NaN with queries in {of_x}, a source in {of_source}"


def check_weights(subject: Subject) -> None:
    """Weights are not negative unless `signed_weights` is True, are zero on padding and future
    tokens, and sum to one if `sums_to_one` is True.
    """
    for size in SIZES:
        attention, (x, source, mask, real) = subject.build(), make_inputs(subject, size)
        weights = attention(x, source, mask, need_weights=True).weights
        assert weights is not None
        assert attention.signed_weights or (weights >= 0).all(), "a weight is negative"
        rows = weights.sum(-1).transpose(1, 2)[real]  # of all heads
        if attention.sums_to_one:
            assert_equal(rows, torch.ones_like(rows))
        if mask is None:
            assert not weights.triu(1).any(), "the future has weight"
        else:
            assert not weights.movedim(3, 1)[~mask].any(), "padding has weight"


def check_asking_for_weights(subject: Subject) -> None:
    """Requesting weights changes neither the outputs nor their gradients."""
    for size in SIZES:
        attention, given = subject.build(), make_inputs(subject, size)
        x, source, mask, real = given
        plain, asked = attention(x, source, mask), attention(x, source, mask, need_weights=True)
        assert plain.weights is None, "it returns weights, although `need_weights` is False"
        assert_equal(asked.out[real], plain.out[real])
        leaves = (*given.leaves, *attention.parameters())
        expected = gradients(plain.out[real].square().sum(), *leaves)
        assert_equal(gradients(asked.out[real].square().sum(), *leaves), expected)


def check_refusal_of_weights(subject: Subject) -> None:
    """A mechanism without weights refuses `need_weights` with ValueError: "... has no weights"."""
    attention, (x, source, mask, _) = subject.build(), make_inputs(subject, 7)
    try:
        attention(x, source, mask, need_weights=True)
    except ValueError as error:
        assert "has no weights" in str(error), f"its message does not say so: {error}"
    else:
        raise AssertionError("it returns weights, though `shows_weights` is False")


def check_kernels(subjects: Sequence[Subject]) -> None:
    """All kernels compute the same outputs and gradients.

    Args:
        subjects: mechanisms that differ only in their kernel.
    """
    x, source, mask, real = given = make_inputs(subjects[0], 65)
    results: list[tuple[Tensor, ...]] = []
    for subject in subjects:
        attention = subject.build()
        out = attention(x, source, mask).out[real]
        slopes = gradients(out.square().sum(), *given.leaves, *attention.parameters())
        results.append((out, *slopes))
    for other in results[1:]:
        assert_equal(other, results[0])


def answers_of(subjects: Sequence[Subject], size: int = 7) -> list[Tensor]:
    """The outputs of several mechanisms for the same inputs."""
    x, source, mask, real = make_inputs(subjects[0], size)
    return [subject.build()(x, source, mask).out[real] for subject in subjects]


@torch.no_grad()
def check_option(subjects: Sequence[Subject]) -> None:
    """Every accepted value of an option gives different outputs.

    Args:
        subjects: mechanisms that differ only in one option.
    """
    found = zip(subjects, answers_of(subjects), strict=True)
    for (_, first), (other, second) in itertools.combinations(found, 2):
        same = first.shape == second.shape and torch.allclose(first, second)
        assert not same, f"it answers as with {other}: it ignores the option"


@torch.no_grad()
def check_dropout(subjects: Sequence[Subject]) -> None:
    """Dropout changes the outputs at random, but only in training.

    Args:
        subjects: a mechanism without dropout, and the same with dropout.
    """
    without, idle = answers_of(subjects, 65)
    assert_equal(idle, without)
    x, source, mask, real = make_inputs(subjects[1], 65)
    attention = subjects[1].build().train()
    once, again = (attention(x, source, mask).out[real] for _ in range(2))
    assert not torch.allclose(once, again), "it accepts `dropout` and drops nothing in training"


@torch.no_grad()
def check_positions(subjects: Sequence[Subject]) -> None:
    """A position scheme listed in `supports` changes the outputs, and makes them depend on the
    order of tokens. If they depend on the order anyway, the scheme need not change them.

    Args:
        subjects: a mechanism without positions, and the same with a scheme.
    """
    plain, placed = subjects
    without, given = answers_of(subjects)
    assert any(effects_of_order(placed)), "it is blind to the order of tokens"
    is_obeyed = all(effects_of_order(plain)) or not torch.allclose(without, given)
    assert is_obeyed, "it answers as without positions"


def effects_of_order(subject: Subject) -> list[bool]:
    """For each pair of neighbours, True if exchanging them changes the output of a later token."""
    attention, x = subject.build(), randn(1, 7, DIM)
    orders = ([*range(i), i + 1, i, *range(i + 2, 7)] for i in range(5))
    last = attention(x).out[:, -1]
    return [not torch.allclose(attention(x[:, order]).out[:, -1], last) for order in orders]


@torch.no_grad()
def check_groups(subject: Subject) -> None:
    """Groups of tokens change the outputs if and only if `reads_groups` is True."""
    attention, (x, source, mask, real) = subject.build(), make_inputs(subject, 7)
    groups = [(torch.arange(7) // size).expand(3, 7)[..., None] for size in (2, 3)]
    pairs, triples = (attention(x, source, mask, groups=each).out[real] for each in groups)
    found, said = not torch.allclose(pairs, triples), attention.reads_groups
    assert found == said, f"groups change the answer: {found}; `reads_groups` says {said}"
