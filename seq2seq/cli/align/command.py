"""Show where a model looks while it translates: as a picture, or as links between words.

    seq2seq align PATH "Ein Hund." "A dog." -o map.png           a picture: .png, .svg or .pdf
    seq2seq align PATH "Ein Hund." "A dog." -o links.align       links i-j, counted from 0
    seq2seq align PATH --source a.de --target a.en -o a.align    a line of links for each pair
    seq2seq align PATH --source a.de --target a.en -o a.html     an interactive page
    seq2seq align PATH --source a.de --target a.en --gold a.align            the error rate (AER)
    seq2seq align PATH --source a.de --target a.en --gold a.align --choose   choose layer and heads
    seq2seq align PATH --reverse PATH2 --source a.de --target a.en -o a.align      two directions
    seq2seq align --links a.align --gold gold.align              score the links of any aligner

Without TGT the model translates SRC first. In files, a pair that cannot be aligned gives an empty
line and sets the exit code to 1.
"""

import argparse
from pathlib import Path

from seq2seq.cli.align import choice
from seq2seq.cli.align.files import align_files
from seq2seq.cli.align.links import LINKS, add_directions, align_links
from seq2seq.cli.align.page import PAGE, align_page
from seq2seq.cli.files import check_written, folder_of, warn_of_files
from seq2seq.cli.options import add_model
from seq2seq.errors import ConfigError, shown

HELP = "align the words of sentences and translations: a picture, or links"


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command, nargs="?")
    command.add_argument("source", nargs="?", metavar="SRC", help="a sentence")
    command.add_argument(
        "target", nargs="?", metavar="TGT", help="its translation; without it the model's own"
    )
    command.add_argument(
        *("-o", "--output"),
        type=Path,
        help="file to write; its suffix sets the format: .png, .svg, .pdf a picture, .align links, "
        ".html an interactive page (for a sentence, map.png in the folder of the run)",
    )
    command.add_argument("--json", action="store_true", help="for files: print one JSON object")
    choice.add_choice(command)
    command.add_argument(
        "--units",
        choices=("words", "subwords"),
        default="words",
        help="what is aligned: words between spaces, or the tokenizer's pieces (%(default)s)",
    )
    files = command.add_argument_group("whole files, one sentence per line, may be .gz")
    files.add_argument("--source", dest="source_file", type=Path, metavar="FILE")
    files.add_argument("--target", dest="target_file", type=Path, metavar="FILE")
    files.add_argument(
        "--gold",
        type=Path,
        metavar="FILE",
        help="reference links: print error rate (AER), precision, recall, F1",
    )
    add_directions(command)


def run(arguments: argparse.Namespace) -> int:
    check_what(arguments)
    if arguments.source is not None:
        arguments.output = arguments.output or folder_of(Path(arguments.path)) / "map.png"
    output: Path | None = arguments.output
    models = [Path(path) for path in (arguments.path, arguments.reverse) if path]
    texts = arguments.source_file, arguments.target_file, arguments.gold
    check_written(output, *models, *texts, *(arguments.links or ()))
    warn_of_files(
        (arguments.source, arguments.target),
        "To align whole files: --source FILE --target FILE -o FILE.align",
    )
    to_links = output.suffix == LINKS if output is not None else arguments.source is None
    if to_links and arguments.heads == "all":
        raise ConfigError(
            "links are of one alignment, and --heads all draws a picture: --heads mean, or "
            "--heads 1"
        )
    if output is not None and output.suffix == PAGE:
        return align_page(arguments)
    if arguments.links:
        return align_links(arguments)
    return align_sentence(arguments) if arguments.source is not None else align_files(arguments)


def check_what(arguments: argparse.Namespace) -> None:
    """Raises: ConfigError unless there is exactly one thing to align."""
    files = arguments.source_file, arguments.target_file
    if arguments.links:
        given = any(getattr(arguments, name) is not None for name in choice.GIVEN)
        if arguments.path or arguments.reverse or arguments.choose or given:
            raise ConfigError(
                "links from files need no model: leave out PATH, --reverse, --choose, "
                "--layer, --heads and --shift, or else --links"
            )
    elif arguments.path is None:
        raise ConfigError(
            "no model is given: give a .ckpt file or the folder of a run; or --links FILE, written "
            "by any aligner"
        )
    elif arguments.source is not None:
        of_files = arguments.gold, arguments.reverse, arguments.choose, arguments.json
        if any((*files, *of_files)):
            raise ConfigError(
                "a sentence and files cannot be aligned at once, and --gold, --choose, --reverse "
                "and --json are for files: give SRC and TGT, or --source FILE and --target FILE"
            )
    elif not any(files):
        raise ConfigError(
            "there is nothing to align: give a sentence, or both --source FILE and --target FILE"
        )
    if any(files) and not all(files):
        raise ConfigError("one of two files is missing: give both --source FILE and --target FILE")


def align_sentence(arguments: argparse.Namespace) -> int:
    from seq2seq import checkpoint  # only here: torch takes a second
    from seq2seq.alignment.links import format_links
    from seq2seq.pages.plots import picture_format, plot_alignment
    from seq2seq.translator import Translator

    output: Path = arguments.output
    if output.suffix != LINKS:
        picture_format(output, LINKS, PAGE)
    path = checkpoint.find(Path(arguments.path))
    translator = Translator.load(path, arguments.device, arguments.tag)
    alignment = translator.align(arguments.source, arguments.target, units=arguments.units)
    reading = choice.reading_of(arguments, path, translator.config, [alignment])
    apart = arguments.heads == "all"
    if output.suffix == LINKS:
        links = format_links(alignment.links(reading.choice))
        output.write_text(f"{links}\n", encoding="utf-8", newline="\n")
    else:
        weights = alignment.map(reading.choice)
        if apart:
            weights = alignment.weights[reading.choice.shift, reading.choice.layer]
        words = [w.text for w in alignment.source], [w.text for w in alignment.target]
        plot_alignment(weights[..., :-1], *words, path=output)
    print(shown(f"{output}: {reading.in_words(apart=apart)}"))
    return 0
