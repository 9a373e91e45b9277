"""Choose the layer, heads and shift that `seq2seq align` reads, and say why."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.alignment import choice as choices
from seq2seq.alignment.candidates import Candidate, CandidateCounts
from seq2seq.alignment.choice import Alignment, Choice, choice_options, describe_choice
from seq2seq.alignment.links import Links
from seq2seq.base.errors import ConfigError
from seq2seq.checkpoint.folder import find_checkpoint
from seq2seq.cli.align.options import ChoiceOptions
from seq2seq.translation.translator import Translator

GUESS = (
    "a guess; links of a validation set choose better: seq2seq "
    "align PATH --source FILE --target FILE --gold FILE --choose"
)

Alignments = Iterator[Alignment | None]  # None for a pair that cannot be aligned
Shape = tuple[int, int]  # numbers of decoder layers, and of heads in each


class ExplainedChoice(NamedTuple):
    """The choice for a model, and its reason: options, validation or a guess."""

    choice: Choice
    shape: Shape
    why: str

    def describe(self, *, apart: bool = False) -> str:
        what = describe_choice(self.choice, *self.shape, apart=apart)
        return f"{what} ({self.why})" if self.why else what

    def to_json(self) -> dict[str, Any]:
        """The choice for JSON; layers and heads count from 1, as on the command line."""
        return {**choice_options(self.choice), "why": self.why or "as given"}


def select_choice(options: ChoiceOptions, model: Path, translator: Translator) -> ExplainedChoice:
    """The choice that the options make; else the one chosen or trained for the model; else a guess.

    If the options name another layer, the heads and shift chosen for the model are ignored too.

    Args:
        model: checkpoint, or folder of a run; a saved choice is in a file beside it.

    Raises: ConfigError for a layer or head that the model does not have.
    """
    checkpoint, config, shape = find_checkpoint(model), translator.config, translator.shape
    is_open = None in (options.layer, options.heads, options.shift)
    choice, why = choices.load_choice(checkpoint) if is_open else None, ""
    if choice:
        why = f"chosen on validation: {choices.choice_file(checkpoint)}"
    elif is_open and (trained := choices.choice_of_guided_head(config)):
        choice, why = trained, "trained to align, by guided.links"
    else:
        choice = choices.guess_choice(config, shape[0])
        why = GUESS if options.layer is None else ""
    if shape[1] == 1 and choice.head == 0:
        choice = choice._replace(head=None)  # the mean of one head is that head
    wanted = apply_options(choice, options, shape)
    choices.check_choice(wanted, *shape)
    # The reason no longer holds if the options changed the choice.
    return ExplainedChoice(wanted, shape, why if why == GUESS or wanted == choice else "")


def apply_options(choice: Choice, options: ChoiceOptions, shape: Shape) -> Choice:
    """The choice, changed as the options say. A new layer resets everything else; a new head or
    shift resets the thresholds, and source words compete.
    """
    if options.layer is not None and options.layer - 1 != choice.layer:
        choice = Choice(0, options.layer - 1, None)
    if options.heads is not None and (head := head_option(options, shape)) != choice.head:
        choice = Choice(choice.shift, choice.layer, head)
    if options.shift is not None and options.shift != choice.shift:
        choice = Choice(options.shift, choice.layer, choice.head)
    return choice


def head_option(options: ChoiceOptions, shape: Shape) -> int | None:
    """The head that --heads names, from 0; None for the mean, and for the only head."""
    if not isinstance(options.heads, int) or (options.heads == 1 and shape[1] == 1):
        return None
    return options.heads - 1


def rank_choices(
    options: ChoiceOptions,
    shape: Shape,
    alignments: Iterable[Alignment | None],
    reference: Sequence[Links],
) -> list[Candidate]:
    """All choices that the options allow for a model, best first.

    Raises: ConfigError for a layer or head that the model does not have, and if no pair can be
        aligned.
    """
    choices.check_choice(apply_options(Choice(0, 0, None), options, shape), *shape)
    candidates, aligned = CandidateCounts(*shape), 0
    for alignment, links in zip(alignments, reference, strict=True):
        if alignment is None:
            candidates.sure += len(links.sure)  # links that no choice can find
        else:
            candidates.add(alignment, links)
            aligned += 1
    if not aligned:
        raise ConfigError("--choose needs pairs that can be aligned: there are none")
    return [c for c in candidates.rank() if apply_options(c.choice, options, shape) == c.choice]
