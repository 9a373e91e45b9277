"""Show where a model looks while it translates: as a picture, or as links between words.

    seq2seq align PATH "Ein Hund." "A dog." -o map.png           a picture: .png, .svg or .pdf
    seq2seq align PATH "Ein Hund." "A dog." -o links.align       links i-j, counted from 0
    seq2seq align PATH --source a.de --target a.en -o a.align    a line of links for each pair
    seq2seq align PATH --source a.de --target a.en -o a.html     an interactive page
    seq2seq align PATH --source a.de --target a.en --gold a.align            the error rate (AER)
    seq2seq align PATH --source a.de --target a.en --gold a.align --choose   choose layer and heads
    seq2seq align PATH --reverse PATH2 --source a.de --target a.en -o a.align      two directions
    seq2seq align --links a.align --gold gold.align              score the links of any aligner

Without TGT, the model first translates SRC. A pair of lines that cannot be aligned becomes an empty
line of the output, and sets the exit code to 1.
"""

from pathlib import Path

from seq2seq.base.errors import ConfigError
from seq2seq.cli.align.options import LINKS, PAGE, AlignOptions, Sentence, TextFiles
from seq2seq.cli.files import check_written, inputs_of, warn_of_files
from seq2seq.cli.options import check_absent, collect_given

HELP = "align words of sentences and translations, as a picture or as links"


def run(options: AlignOptions) -> int:
    check_one_input(options)
    output, sentence = options.output, None
    if options.path and options.source is not None:
        sentence = options.source, options.target
        output = output or Path("map.png")
        warn_of_files(sentence, "To align whole files: --source FILE --target FILE -o FILE.align")
    check_written(output, *inputs_of(options))
    check_output(options, output)
    given: Sentence | TextFiles | None = sentence or options.files.texts
    if options.path is None:
        from seq2seq.cli.align.links import align_links  # only here: torch takes a second

        return align_links(options)
    from seq2seq.cli.align import files, views

    assert given is not None  # see `check_one_input`
    if isinstance(given, TextFiles) and (output is None or output.suffix != PAGE):
        return files.align_files(options, options.path, given)
    assert output is not None
    return views.show(options, options.path, given, output)


def check_one_input(options: AlignOptions) -> None:
    """Raises: ConfigError unless there is exactly one thing to align."""
    files = options.files.source_file, options.files.target_file
    reverse, links = options.directions.reverse, options.directions.links
    if links:
        if options.path or reverse or options.choose or collect_given(options.choice):
            raise ConfigError("--links takes no model: leave out PATH and the options of models")
    elif options.path is None:
        raise ConfigError("no model is given: add a checkpoint, a run, or --links FILE")
    elif options.source is not None:
        if any((*files, options.files.gold, reverse, options.choose, options.json)):
            raise ConfigError(
                "a sentence and files cannot be aligned at once, and --gold, --choose, --reverse "
                "and --json are for files: give SRC and TGT, or --source FILE and --target FILE"
            )
    elif not any(files):
        raise ConfigError("there is nothing to align: give SRC, or --source FILE and --target FILE")
    if any(files) and not all(files):
        raise ConfigError("one of two files is missing: give both --source FILE and --target FILE")


def check_output(options: AlignOptions, output: Path | None) -> None:
    """Raises: ConfigError unless the options ask for one kind of output."""
    if output is not None and output.suffix == PAGE:
        of_links = ("--gold", "--choose", "--reverse", "--links", "--json")
        check_absent(options, of_links, f"is for links: leave it out, or write to -o FILE{LINKS}")
    elif options.source is None:
        check_link_options(options)
    to_links = output.suffix == LINKS if output is not None else options.source is None
    if to_links and options.choice.heads == "all":
        raise ConfigError("links come from one alignment: type --heads mean, or --heads 1")


def check_link_options(options: AlignOptions) -> None:
    """Raises: ConfigError unless links are to be scored, or written to a .align file."""
    output, gold, links = options.output, options.files.gold, options.directions.links
    if len(links) > 2:
        raise ConfigError(f"--links takes one file for each direction, not {len(links)}")
    if options.choose and gold is None:
        raise ConfigError("--choose compares with reference links: add --gold FILE.align")
    if output is None and gold is None:
        raise ConfigError(f"there is nothing to do: add -o FILE{LINKS}, or --gold FILE{LINKS}")
    if output is not None and output.suffix != LINKS and not options.choose:
        raise ConfigError(f"-o {output} should end with {LINKS}, for links, or {PAGE}, for a page")
    is_one = not options.directions.reverse and len(links) < 2
    if options.directions.symmetrize and is_one:
        raise ConfigError("--symmetrize is for two directions: add --reverse MODEL")
