"""The options of `seq2seq align`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from seq2seq.cli.files import InputPath
from seq2seq.cli.lines import as_utf8
from seq2seq.cli.models import DeviceOptions
from seq2seq.cli.options import Options, argument, flag, group, positive, value
from seq2seq.data.text.formats import TwoFiles
from seq2seq.data.text.lines import check_parallel

LINKS, PAGE = ".align", ".html"  # suffixes of links and of pages
OUTPUT = "file to write: a picture (.png, .svg, .pdf), links (.align) or a page (.html)"
UNITS = "what to align: words between spaces, or the tokenizer's pieces (%(default)s)"
CHOOSE = "try all on --gold, and save the one with the lowest error rate beside the checkpoint"
LINK_FILES = "instead of PATH: links from any aligner, one or two directions, source first"

Heuristic = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
Sentence = tuple[str, str | None]  # with its translation; None = translate it


class TextFiles(TwoFiles):
    """Two files whose lines are pairs of sentences."""

    def __str__(self) -> str:
        return f"{self.source} and {self.target}"

    def count_pairs(self) -> int:
        """The number of pairs. Raises: DataError if the files have different numbers of lines."""
        return check_parallel(self.source, self.target, "aligning")


def heads(text: str) -> str | int:
    return text if text in ("mean", "all") else positive(text)


class ChoiceOptions(Options):
    """The layer, heads and shift to read; by default, the best ones that are known."""

    layer: int | None = value("number of the decoder layer, from 1", "N")
    heads: int | str | None = value("the mean, all, or number N", "mean|all|N", type=heads)
    shift: Literal[0, 1] | None = value("the step that writes a word (0), or the next step (1)")


class FileOptions(Options):
    """The two files, and their reference links."""

    source_file: InputPath | None = value("sentences", "FILE", "--source")
    target_file: InputPath | None = value("their translations", "FILE", "--target")
    gold: InputPath | None = value("reference links: print AER, precision, recall, F1", "FILE")

    @property
    def texts(self) -> TextFiles | None:
        """The two files; None if one is missing."""
        if self.source_file is None or self.target_file is None:
            return None
        return TextFiles(self.source_file, self.target_file)


class DirectionOptions(Options):
    """The second direction, and the way of combining both."""

    reverse: InputPath | None = value("a model from target to source, to combine", "PATH")
    symmetrize: Heuristic | None = value("how to combine directions (grow-diag-final-and)")
    links: Sequence[InputPath] = value(LINK_FILES, "FILE", nargs="+", default=())


def text_argument(text: str, name: str) -> Any:
    """A field for an optional text."""
    return argument(text, name, nargs="?", type=partial(as_utf8, where=name))


class AlignOptions(DeviceOptions):
    """The options of `seq2seq align`."""

    path: InputPath | None = argument("a checkpoint, or the folder of a run", "PATH", nargs="?")
    source: str | None = text_argument("a sentence", "SRC")
    target: str | None = text_argument("its translation; without it the model's own", "TGT")
    output: Path | None = value(OUTPUT, "FILE", "-o")
    json: bool = flag("for files: print one JSON object")
    units: Literal["words", "subwords"] = value(UNITS, default="words")
    choice: ChoiceOptions = group("what to read; by default, what --choose saved")
    choose: bool = flag(CHOOSE)
    files: FileOptions = group("whole files, one sentence per line, may be .gz")
    directions: DirectionOptions = group("both directions")
