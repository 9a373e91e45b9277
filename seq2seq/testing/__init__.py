"""Tests for your own mechanisms and position schemes: `check_mechanism` and `check_position_scheme`
check that a class obeys the contract of attention.

It needs no test framework: call it from a test in any framework, or from a script.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partialmethod
from typing import Any, get_args

from seq2seq.attention import Attention, Role
from seq2seq.attention.multihead import MultiHead
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_options, options_of
from seq2seq.models.layers.positions import POSITIONS, PositionScheme
from seq2seq.testing import contract, contract_of_memories
from seq2seq.testing.contract_of_positions import HOOKS, check_embedding, check_hook
from seq2seq.testing.subject import DIM, Placed, Subject, poison_memory, randomise

__all__ = ["CONTRACT", "check_mechanism", "check_position_scheme"]

Check = Callable[[Any], None]


def always(subject: Subject) -> bool:
    return True


def reads_source(subject: Subject) -> bool:
    """True if the subject attends to a sequence that may be padded."""
    return subject.role is not Role.DECODER


def in_decoder(subject: Subject) -> bool:
    return subject.role is Role.DECODER


def in_cross(subject: Subject) -> bool:
    return subject.role is Role.CROSS


def shows_weights(subject: Subject) -> bool:
    return subject.mechanism.shows_weights


def joins_rows(subject: Subject) -> bool:
    return in_decoder(subject) and subject.mechanism.can_merge


# The checks of the contract, each with a function that selects the subjects it applies to.
CONTRACT: dict[Check, Callable[[Subject], bool]] = {
    contract.check_declarations: always,
    contract.check_shapes: always,
    contract.check_padding: reads_source,
    contract.check_only_padding: reads_source,
    contract.check_causality: in_decoder,
    contract.check_what_answers_depend_on: always,
    contract.check_parameters: always,
    contract.check_state_dict: always,
    contract.check_precisions: always,
    contract.check_autocast: always,
    contract.check_weights: shows_weights,
    contract.check_asking_for_weights: shows_weights,
    contract.check_refusal_of_weights: lambda subject: not shows_weights(subject),
    contract.check_groups: reads_source,
    contract_of_memories.check_steps: in_decoder,
    contract_of_memories.check_positions_by_row: in_decoder,
    contract_of_memories.check_fork: in_decoder,
    contract_of_memories.check_keep: in_decoder,
    contract_of_memories.check_kept_source: in_cross,
    contract_of_memories.check_beams_as_queries: in_cross,
    contract_of_memories.check_size_of_memory: in_decoder,
    contract_of_memories.check_decoding: in_decoder,
    contract_of_memories.check_ages: joins_rows,
}


def check_mechanism(mechanism: type[Attention[Any]], **options: Any) -> None:
    """Check that a class obeys the contract of attention, in all of its roles, with all position
    schemes that it supports, and with all of its kernels.

        check_mechanism(Nearby, num_heads=4, radius=2)

    Args:
        mechanism: class to check. It is built with a width of 32, which num_heads should divide.
        options: options of the class; the others keep their defaults.

    Raises: AssertionError listing every rule of the contract that is broken, and where; ConfigError
        if the class refuses the options.
    """
    list_breaches(mechanism, find_breaches(place(mechanism, options)))


def check_position_scheme(scheme: type[PositionScheme], **options: Any) -> None:
    """Check that a position scheme acts at its hook only, that positions make a difference, and
    that what acts inside attention keeps the contract in `MultiHead`: causality, decoding token by
    token, positions by row, forks, gradients, precisions.

        check_position_scheme(Kerple, num_heads=4)

    Args:
        scheme: class to check. It is built with a width of 32, for 4 heads unless it has another
            number.
        options: options of the class; the others keep their defaults.

    Raises: AssertionError listing every rule that is broken; ConfigError if the class refuses the
        options.
    """
    check_options(scheme, options, "position")

    build = partialmethod(scheme.__init__, **options)
    configured = type(scheme.__name__, (scheme,), {"__init__": build})
    broken: list[tuple[str, str]] = []
    for role in (Role.ENCODER, Role.DECODER):
        built = randomise(configured(role is Role.DECODER, DIM))
        broken += run_check(check_hook, built, scheme.__name__)
        if built.hook == "embed":
            broken += run_check(check_embedding, built, scheme.__name__)
        elif built.hook in HOOKS:
            named = {"name": "multihead", "num_heads": built.heads or 4}
            broken += find_breaches([Placed(MultiHead, role, configured, named)])
    list_breaches(scheme, broken)


def list_breaches(checked: type[Any], breaches: Iterable[tuple[str, str]]) -> None:
    """Raise AssertionError that lists all breaches, if there are any."""
    broken = [f"{where}: {why}" for where, why in breaches]
    if broken:
        listed = "\n\n".join(broken)
        raise AssertionError(f"{checked.__name__} breaks the contract of attention.\n\n{listed}")


def find_breaches(subjects: Iterable[Placed]) -> Iterator[tuple[str, str]]:
    """Yield each place where a subject breaks a rule of the contract, and an explanation."""
    for subject in subjects:
        for check, holds_for in CONTRACT.items():
            if holds_for(subject):
                yield from run_check(check, subject, str(subject))
        for comparison, subjects in comparisons(subject):
            if len(subjects) > 1:
                yield from run_check(comparison, subjects, str(subjects[-1]))


def run_check(check: Check, subject: Any, where: str) -> Iterator[tuple[str, str]]:
    try:
        with poison_memory():
            check(subject)
    except Exception as error:  # third-party code may raise anything
        sentence = " ".join((check.__doc__ or "").split("\n\n")[0].split())
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        yield where, f"{sentence}\n  {check.__name__}: {kind}{error}"


def place(mechanism: type[Attention[Any]], options: dict[str, Any]) -> Iterator[Placed]:
    """The mechanism in every role, with every position scheme that it claims to support."""
    named = {"name": mechanism.__name__.lower(), **options}
    for role in sorted(mechanism.roles):
        first = Placed(mechanism, role, "none", named)
        first.build()
        yield first
        for scheme in () if role is Role.CROSS else POSITIONS:
            other = first._replace(position=scheme)
            if POSITIONS[scheme].hook in mechanism.supports and is_possible(other):
                yield other


def comparisons(subject: Placed) -> Iterator[tuple[Check, list[Placed]]]:
    """The checks that compare subjects differing in a single option, each with its subjects."""
    option = options_of(subject.mechanism).get("kernel")
    kernels = with_values(subject, "kernel", get_args(option.annotation) if option else ())
    yield contract.check_kernels, kernels
    for each in kernels or [subject]:
        yield contract.check_dropout, with_values(each, "dropout", (0.0, 0.5))
    if subject.position != "none":
        yield contract.check_positions, [subject._replace(position="none"), subject]
        return
    projected = {name: value for name, value in subject.options.items() if name != "project"}
    for name, values in contract.OPTIONS.items():
        others = with_values(subject._replace(options=projected), name, values)
        yield contract.check_option, others


def with_values(subject: Placed, name: str, values: Iterable[Any]) -> list[Placed]:
    """Variants of a subject, one for each value of an option that its other options allow; empty
    if it lacks the option.
    """
    if name not in options_of(subject.mechanism):
        return []
    others = [subject._replace(options={**subject.options, name: value}) for value in values]
    return [each for each in others if is_possible(each)]


def is_possible(subject: Placed) -> bool:
    """True if the mechanism can be built with these options."""
    try:
        subject.build()
    except ConfigError:
        return False
    return True
