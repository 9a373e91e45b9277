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

from argparse import ArgumentParser, Namespace
from pathlib import Path

from seq2seq.base.errors import ConfigError
from seq2seq.cli.files import InputPath, check_written, folder_of, inputs_of, warn_of_files
from seq2seq.cli.lines import as_utf8
from seq2seq.cli.options import Option, add_model, add_options, list_given, positive

LINKS, PAGE = ".align", ".html"  # suffixes of links and of pages
HELP = "align the words of sentences and translations: a picture, or links"


def add_arguments(command: ArgumentParser) -> None:
    add_model(command, nargs="?")
    add = command.add_argument
    add("source", nargs="?", metavar="SRC", help="a sentence")
    add("target", nargs="?", metavar="TGT", help="its translation; without it the model's own")
    add("-o", "--output", type=Path, help=OUTPUT)
    add("--json", action="store_true", help="for files: print one JSON object")
    units = "what is aligned: words between spaces, or the tokenizer's pieces (%(default)s)"
    add("--units", choices=("words", "subwords"), default="words", help=units)
    choice = command.add_argument_group("what is read; by default, what --choose saved")
    add_options(choice, CHOICE)
    best = "try all on --gold, and save the one with the lowest error rate beside the checkpoint"
    choice.add_argument("--choose", action="store_true", help=best)
    files = command.add_argument_group("whole files, one sentence per line, may be .gz")
    files.add_argument("--source", dest="source_file", type=InputPath, metavar="FILE")
    files.add_argument("--target", dest="target_file", type=InputPath, metavar="FILE")
    rates = "reference links: print error rate (AER), precision, recall, F1"
    files.add_argument("--gold", type=InputPath, metavar="FILE", help=rates)
    both = command.add_argument_group("both directions")
    add_options(both, DIRECTIONS)
    aligner = "instead of PATH: links from any aligner, one or two directions, source first"
    both.add_argument("--links", type=InputPath, nargs="+", metavar="FILE", help=aligner)


def heads(text: str) -> str | int:
    return text if text in ("mean", "all") else positive(text)


OUTPUT = "file to write; its suffix sets the format: .png, .svg, .pdf a picture, .align links, "
OUTPUT += ".html an interactive page (for a sentence, map.png in the folder of the run)"
CHOICE = {
    "layer": Option(positive, "N", "decoder layer, from 1"),
    "heads": Option(heads, "mean|all|N", "the mean over heads, a map of each, or head N, from 1"),
    "shift": Option((0, 1), None, "where it looked when it wrote a word, or one step later (1)"),
}
HEURISTICS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")
DIRECTIONS = {
    "reverse": Option(InputPath, "PATH", "a model from target to source, to combine with PATH"),
    "symmetrize": Option(HEURISTICS, None, "how to combine two directions (grow-diag-final-and)"),
}


def run(arguments: Namespace) -> int:
    check_one_input(arguments)
    if arguments.source is not None:
        arguments.source = as_utf8(arguments.source, "SRC")
        arguments.target = arguments.target and as_utf8(arguments.target, "TGT")
        arguments.output = arguments.output or folder_of(Path(arguments.path)) / "map.png"
    output: Path | None = arguments.output
    check_written(output, *inputs_of(arguments))
    mend = "To align whole files: --source FILE --target FILE -o FILE.align"
    warn_of_files((arguments.source, arguments.target), mend)
    check_output(arguments)
    if arguments.links:
        from seq2seq.cli.align.links import align_links  # only here: torch takes a second

        return align_links(arguments)
    from seq2seq.cli.align import files, views

    if output is not None and output.suffix == PAGE:
        return views.align_page(arguments)
    if arguments.source is not None:
        return views.align_sentence(arguments)
    return files.align_files(arguments)


def check_one_input(arguments: Namespace) -> None:
    """Raises: ConfigError unless there is exactly one thing to align."""
    files = arguments.source_file, arguments.target_file
    if arguments.links:
        read = arguments.layer, arguments.heads, arguments.shift
        if arguments.path or arguments.reverse or arguments.choose or read != (None, None, None):
            raise ConfigError("--links need no model: leave PATH and options of models out")
    elif arguments.path is None:
        raise ConfigError("no model is given: add a checkpoint, a run, or --links FILE")
    elif arguments.source is not None:
        of_files = arguments.gold, arguments.reverse, arguments.choose, arguments.json
        if any((*files, *of_files)):
            raise ConfigError(
                "a sentence and files cannot be aligned at once, and --gold, --choose, --reverse "
                "and --json are for files: give SRC and TGT, or --source FILE and --target FILE"
            )
    elif not any(files):
        raise ConfigError("there is nothing to align: give SRC, or --source FILE and --target FILE")
    if any(files) and not all(files):
        raise ConfigError("one of two files is missing: give both --source FILE and --target FILE")


def check_output(arguments: Namespace) -> None:
    """Raises: ConfigError unless there is one thing to make of the alignments."""
    output: Path | None = arguments.output
    if output is not None and output.suffix == PAGE:
        check_page(arguments)
    elif arguments.source is None:
        check_link_options(arguments)
    to_links = output.suffix == LINKS if output is not None else arguments.source is None
    if to_links and arguments.heads == "all":
        raise ConfigError("links are of one alignment: --heads mean, or --heads 1")


def check_link_options(arguments: Namespace) -> None:
    """Raises: ConfigError unless links are chosen by, written to a .align file, or scored."""
    output: Path | None = arguments.output
    links = arguments.links or ()
    if len(links) > 2:
        raise ConfigError(f"--links takes a file for each direction; {len(links)} are given")
    if arguments.choose and arguments.gold is None:
        raise ConfigError("--choose compares with reference links: add --gold FILE.align")
    if output is None and arguments.gold is None:
        raise ConfigError(f"no output is asked for: -o FILE{LINKS}, or --gold FILE{LINKS}")
    if output is not None and output.suffix != LINKS and not arguments.choose:
        raise ConfigError(f"-o {output} should be links, -o FILE{LINKS}, or a page, -o FILE{PAGE}")
    if arguments.symmetrize and not arguments.reverse and len(links) < 2:
        raise ConfigError("--symmetrize is for two directions: add --reverse MODEL")


def check_page(arguments: Namespace) -> None:
    """Raises: ConfigError for options that are for links."""
    of_links = ("gold", "choose", "reverse", "links", "json")
    if given := list_given(arguments, of_links):
        raise ConfigError(f"{given[0]} is for links: leave it out, or -o FILE{LINKS}")
