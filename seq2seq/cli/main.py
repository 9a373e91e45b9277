"""Train sequence-to-sequence models, translate with them, and evaluate them."""

import os
import shlex
import sys
import warnings
from argparse import Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from seq2seq import __version__
from seq2seq.base.environment import keep_memory, limit_thread_spinning, quiet_interrupt, use_utf8
from seq2seq.base.errors import ConfigError, Seq2SeqError, fail, printable
from seq2seq.cli import (
    average,
    clean,
    demo,
    export,
    importing,
    native,
    quantize,
    report,
    score,
    serve,
    shortlist,
    suggestions,
    translate,
)
from seq2seq.cli.align import command as align
from seq2seq.cli.evaluate import command as evaluate
from seq2seq.cli.options import with_typed_options

COMMANDS = {
    "demo": demo,
    "translate": translate,
    "evaluate": evaluate,
    "align": align,
    "score": score,
    "shortlist": shortlist,
    "clean": clean,
    "average": average,
    "quantize": quantize,
    "export": export,
    "import": importing,
    "report": report,
    "native": native,
    "serve": serve,
    "suggestions": suggestions,
}
SHELLS = ("bash", "zsh", "tcsh")


def main() -> None:
    """Run a command. A mistake of the user ends in one message and exit code 2."""
    if sys.argv[1:2] == ["train"]:
        # A process of its own name, because Lightning starts others by repeating its command.
        os.execv(sys.executable, [sys.executable, "-m", "seq2seq.training", *sys.argv[2:]])
    if sys.stdout is None:  # as after `>&-`
        sys.exit(fail("there is nowhere to write to: standard output is closed"))
    with quiet_interrupt():
        sys.exit(run_command())


def run_command() -> int:
    """Run the command that was typed. Returns: the exit code."""
    limit_thread_spinning()
    keep_memory()
    use_utf8()
    arguments = parse_arguments(sys.argv[1:])
    warnings.showwarning = show_warning
    # Python would show a repeated warning once; each line of a file has its own.
    warnings.filterwarnings("always", module=r"seq2seq\.")
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()  # here, where a BrokenPipeError is caught
    except Seq2SeqError as error:
        return fail(with_typed_options(str(error), arguments))
    except BrokenPipeError:
        # The reader has gone (`| head`): Python must not flush to it on exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a file that cannot be written, a full disk
        where = error.filename or getattr(arguments, "output", None)
        return fail(f"{where}: {error.strerror}" if where and error.strerror else str(error))
    except UnicodeEncodeError as error:  # broken bytes of the command line, where text is needed
        return fail(f"{error.object!r} is not UTF-8")
    return code


class Parser(ArgumentParser):
    """Escapes control characters in the arguments that it quotes."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


class PrintCompletion(Action):
    """Prints the completion for a shell, and ends the program."""

    def __call__(self, parser: ArgumentParser, _: Any, shell: Any, *__: Any) -> None:
        try:
            import shtab
        except ModuleNotFoundError:
            parser.error("it needs shtab: pip install 'seq2seq-attention-zoo[completion]'")
        print(shtab.complete(parser, shell=shell))
        parser.exit()


def parse_arguments(words: list[str]) -> Namespace:
    """Parse a command line, with options before, after or between the texts."""
    if words and words[0] in COMMANDS:
        # argparse can intermix options and texts only in a parser without subcommands.
        parser = command_parser(words[0])
        if prefix := getattr(COMMANDS[words[0]], "VARIABLES", None):
            words[1:1] = read_variables(parser, prefix, os.environ)
        return parser.parse_intermixed_args(words[1:])
    return whole_parser().parse_args(words)


def read_variables(
    parser: ArgumentParser, prefix: str, environment: Mapping[str, str]
) -> Iterator[str]:
    """The words that say the same on a command line: `--port=80` for PREFIX_PORT=80.

    PREFIX_FLAG=1 sets a flag, 0 does not; the values of an option that may be repeated stand one
    after the other, quoted as in a shell if they contain spaces.

    Raises: ConfigError for a variable of that prefix that is no option.
    """
    actions = {
        f"{prefix}{action.dest.upper()}": action
        for action in parser._actions
        if action.option_strings and action.dest != "help"
    }
    for name, value in sorted(environment.items()):
        if not name.startswith(prefix):
            continue
        if name not in actions:
            raise ConfigError(f"{name} is no option of {parser.prog}. Known: {', '.join(actions)}")
        action = actions[name]
        option = action.option_strings[-1]
        if action.nargs == 0:
            if value not in ("0", "1"):
                raise ConfigError(f"{name}={value} should be 1, which is {option}, or 0")
            yield from [option] * int(value)
        elif isinstance(action.default, list):
            yield from (f"{option}={each}" for each in shlex.split(value))
        else:
            yield f"{option}={value}"


def whole_parser() -> ArgumentParser:
    """For help, mistakes and completion: it knows all commands, but cannot intermix."""
    root = Parser(prog="seq2seq", description=__doc__)
    root.add_argument("--version", action="version", version=__version__)
    complete = "print the completion for a shell: seq2seq --completion bash >> ~/.bashrc"
    root.add_argument("--completion", action=PrintCompletion, choices=SHELLS, help=complete)
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser("train", help="train a model; `seq2seq train --help` shows its options")
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.HELP))
    return root


def command_parser(name: str) -> ArgumentParser:
    module = COMMANDS[name]
    parser = Parser(
        prog=f"seq2seq {name}",
        description=module.__doc__,
        formatter_class=RawDescriptionHelpFormatter,  # keeps the line breaks
    )
    module.add_arguments(parser)
    parser.set_defaults(run=module.run)
    return parser


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {printable(str(message))}", file=sys.stderr)
