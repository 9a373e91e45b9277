"""Which layer, head and reading of a model `seq2seq align` reads."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seq2seq.cli.options import positive

if TYPE_CHECKING:
    from seq2seq.evaluation.maps import Alignment, Choice


def add_choice(command: argparse.ArgumentParser) -> None:
    command.add_argument("--layer", type=positive, metavar="N", help="decoder layer, from 1")
    command.add_argument(
        "--heads",
        type=heads,
        metavar="mean|all|N",
        help="the mean over heads, a map of each, or head N, from 1",
    )
    command.add_argument(
        "--shift",
        type=int,
        choices=(0, 1),
        help="where the model looked when it wrote a word (0), or one step later (1)",
    )


def heads(text: str) -> str | int:
    return text if text in ("mean", "all") else positive(text)


def choose(arguments: argparse.Namespace, alignments: Sequence["Alignment"]) -> "Choice":
    """What the options say, and the rest from the layer that looks sharpest.

    Raises: ConfigError for a layer or head that the model does not have.
    """
    from seq2seq.evaluation.maps import check_choice, sharpest  # only here: torch takes a second

    choice = sharpest(alignments, arguments.shift or 0)
    if arguments.layer is not None:
        choice = choice._replace(layer=arguments.layer - 1)
    if isinstance(arguments.heads, int):
        choice = choice._replace(head=arguments.heads - 1)
    check_choice(choice, *alignments[0].weights.shape[1:3])
    return choice


def in_words(
    arguments: argparse.Namespace, choice: "Choice", alignments: Sequence["Alignment"]
) -> str:
    from seq2seq.evaluation.maps import describe

    layers, count = alignments[0].weights.shape[1:3]
    return describe(choice, layers, count, apart=arguments.heads == "all")
