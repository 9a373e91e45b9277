"""Where a model looks while it writes a translation: a picture, or links between words as text.

    seq2seq align PATH "Ein Hund." "A dog." -o map.png           a picture: .png, .svg or .pdf
    seq2seq align PATH "Ein Hund." "A dog." -o links.align       links i-j, counted from 0
    seq2seq align PATH --source a.de --target a.en -o a.align    a line of links for each pair

Without TGT the model's own translation is taken. Of files, a pair that cannot be aligned is an
empty line, and then the exit code is 1.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.cli.choice import add_choice, choose, in_words
from seq2seq.cli.links import LINKS, align_files, write_links
from seq2seq.cli.options import add_model, check_output
from seq2seq.errors import ConfigError

if TYPE_CHECKING:
    from seq2seq.evaluation.maps import Alignment, Choice

HELP = "align words of sentences and translations: a picture, or links as text"


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    command.add_argument("source", nargs="?", metavar="SRC", help="a sentence")
    command.add_argument(
        "target", nargs="?", metavar="TGT", help="its translation; without it the model's own"
    )
    command.add_argument(
        *("-o", "--output"),
        type=Path,
        default=Path("map.png"),
        help="its ending says what: .png, .svg, .pdf a picture, .align links (%(default)s)",
    )
    add_choice(command)
    command.add_argument(
        "--units",
        choices=("words", "subwords"),
        default="words",
        help="what is aligned: words between spaces, or the tokenizer's pieces (%(default)s)",
    )
    files = command.add_argument_group("whole files, a sentence a line, may be .gz")
    files.add_argument("--source", dest="source_file", type=Path, metavar="FILE")
    files.add_argument("--target", dest="target_file", type=Path, metavar="FILE")
    files.add_argument(
        "--gold", type=Path, metavar="FILE", help="links made by hand: print the error rate (AER)"
    )


def run(arguments: argparse.Namespace) -> int:
    files = arguments.source_file, arguments.target_file
    text = arguments.source is not None
    if text and any((*files, arguments.gold)):
        raise ConfigError(
            "a sentence and files cannot be aligned at once: give SRC and TGT, or --source FILE "
            "and --target FILE"
        )
    if not text and not all(files):
        raise ConfigError(
            "there is nothing to align: give a sentence, or both --source FILE and --target FILE"
        )
    if arguments.output.suffix == LINKS and arguments.heads == "all":
        raise ConfigError("a file of links holds one alignment: --heads mean, or --heads 1")
    check_output(arguments.output)
    return align_sentence(arguments) if text else align_files(arguments)


def align_sentence(arguments: argparse.Namespace) -> int:
    from seq2seq.evaluation.plots import picture_format  # only here: torch takes a second
    from seq2seq.translator import Translator

    output: Path = arguments.output
    if output.suffix != LINKS:
        picture_format(output, LINKS)
    translator = Translator.load(arguments.path, arguments.device, arguments.tag)
    alignment = translator.align(arguments.source, arguments.target, units=arguments.units)
    choice = choose(arguments, [alignment])
    if output.suffix == LINKS:
        write_links(output, [alignment], choice)
    else:
        draw(alignment, choice, output, apart=arguments.heads == "all")
    print(f"{output}: {in_words(arguments, choice, [alignment])}")
    return 0


def draw(alignment: "Alignment", choice: "Choice", path: Path, *, apart: bool) -> None:
    from seq2seq.evaluation.plots import plot_alignment, plot_heads

    words = [w.text for w in alignment.source], [w.text for w in alignment.target]
    if apart:
        maps = alignment.weights[choice.shift, choice.layer]
        plot_heads(maps[..., :-1], *words, path=path)
    else:
        plot_alignment(alignment.map(choice)[:, :-1], *words, path=path)
