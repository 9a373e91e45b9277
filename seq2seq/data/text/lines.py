"""Lines of text from plain or gzipped files, and the two files that make a parallel corpus.

A line ends at LF, and a CR just before that LF belongs to the ending.
Every other separator (U+2028, NEL, VT, FF, a lone CR) is a character of the sentence. A reader that
split there would pair each later sentence with the wrong translation.
"""

import difflib
import io
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.text_stream import BLOCK, TextBytes, without_marks

# A longer "line" means the file is not one sentence per line; refusing it bounds the memory.
LONGEST_LINE = 2**24

NAMES_SEEN = 10_000  # maximum names of a folder to read in search of a similar one


class MissingFileError(DataError):
    """A file is not where the configuration says."""


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their endings, one at a time; gzip is unpacked.

    Byte order marks are dropped. A last line without LF counts as a line.

    Raises: DataError, once reading reaches the fault, for a missing, empty or damaged file, a file
        that is not text, bytes that are not UTF-8 (with line and byte), or a line above 16 MiB.
    """
    line_no = 0
    try:
        with (
            open(path, "rb") as stored,
            io.BufferedReader(TextBytes(stored, str(path)), BLOCK) as file,
        ):
            while raw := file.readline(LONGEST_LINE + 1):
                line = without_marks(decode_line(raw, path, line_no + 1))
                if not (line or line_no):
                    break
                line_no += 1
                yield strip_line_end(line)
    except FileNotFoundError as error:
        raise MissingFileError(f"{path} does not exist. {similar_names(path)}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    if line_no == 0:
        raise DataError(f"{path} is empty: expected one sentence per line.")


def strip_line_end(line: str) -> str:
    """Remove the line ending, if there is one."""
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def decode_line(raw: bytes, path: Path, line_no: int) -> str:
    if len(raw) > LONGEST_LINE:
        raise DataError(
            f"{path}, line {line_no}: longer than {LONGEST_LINE:,} bytes. "
            "Expected one sentence per line, each ended by LF."
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {line_no}, byte {error.start + 1}: 0x{raw[error.start]:02x} is not "
            f"UTF-8 ({error.reason}); convert the file, for example: iconv -f ISO-8859-1 -t UTF-8 "
            "OLD > NEW."
        ) from error


def similar_names(path: Path) -> str:
    """A sentence with the most similar names in the folder of a missing file, or all names."""
    folder = Path.cwd() if path.parent == Path() else path.parent
    if not folder.is_dir():
        return f"There is no folder {folder}."
    try:
        entries = islice(os.scandir(folder), NAMES_SEEN)
        names = sorted(entry.name for entry in entries if entry.is_file())
        names = [name for name in names if name[0] != "." or path.name[:1] == "."]
    except OSError:
        return f"The folder {folder} cannot be read."
    near = [name for name in names if name.startswith(path.name)]
    near += difflib.get_close_matches(path.name, (n for n in names if n not in near), n=8)
    if near:
        return f"Near it in {folder}: {', '.join(near[:8])}."
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{folder} holds: {', '.join(names[:8]) or 'no files'}{more}."


def find_side(prefix: str | Path, suffix: str) -> Path:
    """The file of one language, PREFIX.SUFFIX or PREFIX.SUFFIX.gz.

    Raises: DataError if neither exists, and if both exist: they may differ, and it would be unclear
        which one a model was trained on.
    """
    plain = Path(f"{Path(prefix).expanduser()}.{suffix}")
    zipped = Path(f"{plain}.gz")
    existing = [path for path in (plain, zipped) if os.path.isfile(path)]
    if len(existing) == 2:
        raise DataError(f"both {plain} and {zipped} exist. Remove or rename one of them.")
    if existing:
        return existing[0]
    given = Path(prefix).expanduser()
    hint = ""
    if given.is_file():
        hint = f" {given} is itself a file: give the part before .{suffix}, or a .tsv or .jsonl."
    raise MissingFileError(f"found neither {plain} nor {zipped}.{hint} {similar_names(plain)}")


def parallel_paths(spec: str | list[str], source: str, target: str, what: str) -> tuple[Path, Path]:
    """The source and the target file of a corpus.

    Args:
        spec: a prefix, completed by the two suffixes, or the two paths themselves.
        source: suffix of the source language, without its dot.
        target: suffix of the target language, without its dot.
        what: the option that holds `spec` (`data.train`), for the messages.

    Raises: DataError if a file is missing; ConfigError if a list does not hold two paths.
    """
    if not isinstance(spec, str) and len(spec) != 2:
        raise ConfigError(
            f"{what} lists {len(spec)} files; expected two, source then target: {what}=[a.de,a.en]"
        )
    try:
        if isinstance(spec, str):
            return find_side(spec, source), find_side(spec, target)
        paths = Path(spec[0]).expanduser(), Path(spec[1]).expanduser()
        for path in paths:
            check_rereadable(path)
            if not path.is_file():
                raise MissingFileError(f"{path} is not a file. {similar_names(path)}")
        return paths
    except DataError as error:
        raise type(error)(f"{what}={spec}: {error}") from error


def count_lines(path: Path) -> int:
    """Count the lines that `read_lines` yields; checks every byte of the file."""
    return sum(1 for _ in read_lines(path))


def check_rereadable(path: Path) -> None:
    """Check that a file can be read twice. Raises: DataError if it is a pipe or a device."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(
            f"{path} is a pipe or a device, which can be read once; files are read twice, to check "
            "them first. Give the file itself, which may be .gz, or write one first: "
            "zcat a.gz > a.txt"
        )


def check_parallel(
    source: Path, target: Path, use: str, count: Callable[[Path], int] = count_lines
) -> int:
    """Count the pairs of two files, which must have equally many lines.

    Args:
        use: purpose of the pairs (`scoring`), for the message.
        count: function that counts the lines of a file.

    Raises: DataError with both counts if they differ, and for a file that can be read only once;
        and any error of `count`.
    """
    for path in (source, target):
        check_rereadable(path)
    counts = count(source), count(target)
    if counts[0] != counts[1]:
        raise DataError(
            f"{source} has {counts[0]:,} line(s), {target} {counts[1]:,}. Line n of one must be "
            f"the translation of line n of the other; {use} shifted pairs makes no sense. Only LF "
            "ends a line, and a missing sentence should be an empty line."
        )
    return counts[0]
