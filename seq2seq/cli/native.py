"""Compile the C that translates faster than torch alone, or say why that is not possible here.

seq2seq native             is it compiled, and does it work?
seq2seq native --build     compile it now; else the first translation does so
"""

from dataclasses import dataclass

from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.options import flag

HELP = "compile the faster decoder ahead of the first translation"


@dataclass(frozen=True, kw_only=True)
class NativeOptions:
    """The options of `seq2seq native`."""

    build: bool = flag("compile it, unless it is compiled")


def run(options: NativeOptions) -> int:
    from seq2seq.decoding import native  # only here: torch takes a second
    from seq2seq.decoding.native.build import cache_folder, is_built

    if not options.build and not is_built():
        print(printable(f"not compiled yet for this machine, in {cache_folder()}"))
        print("seq2seq native --build compiles it; so does the first translation")
        return 0
    reason = native.unavailable_reason()
    if reason is not None:
        raise ConfigError(f"translating with torch alone: {reason}")
    print(printable(f"compiled and tested, in {cache_folder()}"))
    return 0
