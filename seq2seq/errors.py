"""Errors that a user can mend: the command line prints them as one message, without a traceback."""

import sys

from seq2seq.visible import shown


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
