"""Draw where a model looked in the source while it wrote each word of the translation."""

import argparse
from pathlib import Path

HELP = "draw the alignment of a sentence and its translation"


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", metavar="SRC", help="a sentence")
    command.add_argument(
        "target", nargs="?", metavar="TGT", help="its translation; without it the model's own"
    )
    command.add_argument(
        "-o", "--output", type=Path, default=Path("map.png"), help="png, svg or pdf (%(default)s)"
    )
    command.add_argument(
        "--layer", type=int, help="decoder layer, from 1; without it the layer that looks sharpest"
    )


def run(arguments: argparse.Namespace) -> int:
    from seq2seq.evaluation.plots import picture_format, plot_alignment
    from seq2seq.translator import Translator

    picture_format(arguments.output)
    translator = Translator.load(arguments.path, arguments.device)
    alignment = translator.align(arguments.source, arguments.target)
    layer = alignment.sharpest() if arguments.layer is None else alignment.layer(arguments.layer)
    plot_alignment(
        alignment.map(layer)[:, :-1],
        [word.text for word in alignment.source],
        [word.text for word in alignment.target],
        path=arguments.output,
    )
    print(f"{arguments.output}: decoder layer {layer + 1} of {len(alignment.weights)}, all heads")
    return 0
