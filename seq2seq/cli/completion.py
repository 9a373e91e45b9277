"""Completion of the command line in a shell, printed from what the parser knows."""

from argparse import Action, ArgumentParser
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")


class PrintCompletion(Action):
    """Prints the completion for a shell, and ends the program."""

    def __call__(self, parser: ArgumentParser, _: Any, shell: Any, *__: Any) -> None:
        try:
            import shtab
        except ModuleNotFoundError:
            parser.error(
                "--completion needs shtab: pip install 'seq2seq-attention-zoo[completion]'"
            )
        print(shtab.complete(parser, shell=shell))
        parser.exit()
