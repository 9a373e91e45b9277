"""Errors that a user can mend: the command line prints them as one message, without a traceback."""

import sys
import unicodedata


def escaped(text: str, keep: str = "") -> str:
    """A text with `\\x1b` and the like for characters that are controls, have no width or no form.

    So data in a message can neither move the cursor nor turn the direction of a line; and what is
    no character, half of a pair in the name of a file, can be printed.

    Args:
        keep: characters that stay, such as the ends of lines.
    """
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if _is_hidden(c) and c not in keep else c for c in text
    )


def shown(text: str) -> str:
    """A text of any number of lines as a message: `escaped` but for their ends and tabs."""
    return escaped(text, keep="\n\t")


def _is_hidden(character: str) -> bool:
    # Joiners are part of the spelling in Persian and in Indic scripts.
    category = unicodedata.category(character)
    return category in {"Zl", "Zp"} or (category[0] == "C" and character not in "\u200c\u200d")


class Seq2SeqError(Exception):
    """What is wrong with the value, what would be right, and what to type."""


class ConfigError(Seq2SeqError):
    """An option, a name or a combination of them that cannot work."""


class DataError(Seq2SeqError):
    """A file that cannot be read as what it claims to be; the message names the file and the
    line.
    """


class CheckpointError(Seq2SeqError):
    """A path that holds no model this version can open."""


def fail(message: str) -> int:
    """Print the one message that a command ends in. Returns: its exit code."""
    print(f"error: {shown(message)}", file=sys.stderr)
    return 2
