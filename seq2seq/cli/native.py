"""Compile the native decoder, which is faster than torch alone, or say why this is not possible.

seq2seq native             say if it is compiled, and works
seq2seq native --build     compile it now, and not with the first translation
"""

from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.options import Options, flag

HELP = "compile the faster decoder ahead of the first translation"


class NativeOptions(Options):
    """The options of `seq2seq native`."""

    build: bool = flag("compile it, unless it is compiled")


def run(options: NativeOptions) -> None:
    from seq2seq.decoding import native  # only here: torch takes a second
    from seq2seq.decoding.native.build import cache_folder, is_built
    from seq2seq.decoding.native.prebuilt import find_prebuilt

    if not options.build and not is_built():
        came = "a compiled decoder came with seq2seq: no compiler is needed"
        print(came if find_prebuilt() else "not compiled yet for this machine")
        print(printable(f"seq2seq native --build puts it into {cache_folder()}, tested, as does"))
        print("the first translation")
        return
    reason = native.unavailable_reason()
    if reason is not None:
        raise ConfigError(f"translating with torch alone: {reason}")
    print(printable(f"compiled and tested, in {cache_folder()}"))
