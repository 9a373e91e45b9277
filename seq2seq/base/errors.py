"""Errors that a user can fix. The command line prints only their message, without a traceback."""

import sys
import unicodedata


def escape(text: str, keep: str = "") -> str:
    """Replace control and other invisible characters by escapes such as `\\x1b`.

    Data in a message can then neither move the cursor nor change the direction of a line, and lone
    surrogates, as in file names, can be printed.

    Args:
        keep: characters that stay unescaped, such as line ends.
    """
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if is_hidden(c) and c not in keep else c for c in text
    )


def printable(text: str) -> str:
    """Escape a text for a message of one or more lines; line ends and tabs are kept."""
    return escape(text, keep="\n\t")


def is_hidden(character: str) -> bool:
    # Joiners are part of the spelling in Persian and Indic scripts.
    category = unicodedata.category(character)
    return category in {"Zl", "Zp"} or (category[0] == "C" and character not in "\u200c\u200d")


def format_count(count: int, noun: str) -> str:
    """A count with its noun: `1 line`, `2,000 lines`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class Seq2SeqError(Exception):
    """An error whose message says what is wrong, what would be right, and what to type."""


class ConfigError(Seq2SeqError):
    """An invalid option or name, or a combination that cannot work."""


class DataError(Seq2SeqError):
    """A file that cannot be read as its format; the message names the file and the line."""


class CheckpointError(Seq2SeqError):
    """There is no model at a path, or this version cannot open it."""


def fail(message: str) -> int:
    """Print the error message of a failed command. Returns: the exit code."""
    print(f"error: {printable(message)}", file=sys.stderr)
    return 2
