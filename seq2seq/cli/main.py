"""Train sequence-to-sequence models, translate with them, and evaluate them.

After `seq2seq demo`, for example, which trains a model in runs/demo/quickstart:
  seq2seq translate runs/demo/quickstart "Ein Hund."

seq2seq COMMAND --help explains a command.
"""

import os
import shlex
import sys
import warnings
from argparse import Action, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping
from importlib import import_module
from inspect import get_annotations
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from seq2seq import __version__
from seq2seq.base.environment import keep_memory, limit_thread_spinning, quiet_interrupt, use_utf8
from seq2seq.base.errors import ConfigError, Seq2SeqError, fail, printable
from seq2seq.base.plugins import preset_folders
from seq2seq.cli.files import STDOUT, check_apart, inputs_of
from seq2seq.cli.options import add_options, fill

# The modules of the commands in seq2seq.cli. Each has a function `run` that returns the exit code,
# or None for 0; the fields of its argument are the options of the command.
COMMANDS = {
    "demo": "demo",
    "translate": "translate",
    "translate-files": "translate_files",
    "evaluate": "evaluate.command",
    "compare": "compare",
    "align": "align.command",
    "score": "score",
    "shortlist": "shortlist",
    "clean": "clean",
    "average": "average",
    "quantize": "quantize",
    "export": "export",
    "import": "importing",
    "report": "report",
    "native": "native",
    "serve": "serve",
    "suggestions": "suggestions",
}
ROLES = ("encoder", "decoder", "cross")
SHELLS = ("bash", "zsh", "tcsh")


def main() -> None:
    """Run a command. A mistake by the user ends with one message and exit code 2."""
    if sys.argv[1:2] == ["train"]:
        # Another program, because Lightning starts its processes by repeating the command.
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
    warnings.showwarning = show_warning
    # Python shows a repeated warning only once, but each line of a file needs its own.
    warnings.filterwarnings("always", module=r"seq2seq\.")
    options: Any = None
    try:
        words = use_new_spelling(sys.argv[1:])
        options = parse_arguments(words)
        check_apart([STDOUT], "standard output", inputs_of(options))
        code: int = module_of(words[0]).run(options) or 0
        sys.stdout.flush()  # here a BrokenPipeError is caught
    except Seq2SeqError as error:
        return fail(str(error))
    except BrokenPipeError:
        # The reader has gone (`| head`): Python must not flush to it on exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # such as a full disk
        where = error.filename or getattr(options, "output", None)
        return fail(f"{where}: {error.strerror}" if where and error.strerror else str(error))
    except UnicodeEncodeError as error:  # invalid bytes in the command line
        return fail(f"{error.object!r} is not UTF-8")
    return code


class Parser(ArgumentParser):
    """A parser that reports a mistake in one line, with control characters escaped."""

    def error(self, message: str) -> NoReturn:
        message = message.replace("the following arguments are required: ", "missing: ")
        usage = " ".join(self.format_usage().split())
        self.exit(fail(f"{message} ({usage}; {self.prog} --help explains the options)"))


class PrintCompletion(Action):
    """An option that prints the completion for a shell, and ends the program."""

    def __call__(self, parser: ArgumentParser, _: Any, shell: Any, *__: Any) -> None:
        try:
            import shtab
        except ModuleNotFoundError:
            parser.error("it needs shtab: pip install 'seq2seq-attention-zoo[completion]'")
        presets = " ".join(find_presets())
        bash = Path(__file__).with_name("completion.bash").read_text().replace("PRESETS", presets)
        commands: Any = parser._subparsers._group_actions[0].choices  # type: ignore
        overrides = commands["train"].add_argument("preset", nargs="*", help="a preset: attn=gqa")
        overrides.complete = {"bash": "_seq2seq_presets", "zsh": f"({presets})"}
        inputs = next(each for each in commands["compare"]._actions if each.dest == "inputs")
        inputs.complete = {"bash": "_seq2seq_presets_of_comparison"}
        print(shtab.complete(parser, shell=shell, preamble=bash if shell == "bash" else ""))
        parser.exit()


def find_presets() -> Iterator[str]:
    """The presets of training as they are typed, such as attn=gqa and attn@cross_attn=gqa."""
    from seq2seq.training.launch import conf_dir

    for path in chain(
        *(folder.glob("*/*.yaml") for folder in (Path(conf_dir()), *preset_folders()))
    ):
        of_role = [f"attn@{role}_attn" for role in ROLES] if path.parent.name == "attn" else []
        yield from (f"{group}={path.stem}" for group in (path.parent.name, *of_role))


def use_new_spelling(words: list[str]) -> list[str]:
    """Turn `translate --files` into `translate-files`, with a warning; others stay as typed."""
    if words[:1] != ["translate"]:
        return words
    old = Parser(prog="seq2seq translate", add_help=False, allow_abbrev=False)
    old.add_argument("--files")
    old.add_argument("--output-dir")
    folders, rest = old.parse_known_args(words[1:])
    if folders.files is None:
        return words
    words = ["translate-files", *rest, *filter(None, (folders.files, folders.output_dir))]
    new = shlex.join(["seq2seq", *words])
    show_warning(f"`translate --files` will go in the next release: type {new}")
    return words


def parse_arguments(words: list[str]) -> Any:
    """The options of the command; they may be typed before, after or between its texts."""
    if not words:
        whole_parser().print_help(sys.stderr)
        sys.exit(2)
    if words[0] not in COMMANDS:
        whole_parser().parse_args(words)
        sys.exit(2)
    # argparse can intermix options and texts only in a parser without subcommands.
    name, parser = words[0], command_parser(words[0])
    if prefix := getattr(module_of(name), "VARIABLES", None):
        words = [name, *read_variables(parser, prefix, os.environ), *words[1:]]
    return fill(options_class(name), parser.parse_intermixed_args(words[1:]))


def module_of(name: str) -> Any:
    """The module of a command. The others are not imported, so that the command starts sooner."""
    return import_module(f"seq2seq.cli.{COMMANDS[name]}")


def options_class(name: str) -> Any:
    """The dataclass of the options of a command."""
    return get_annotations(module_of(name).run)["options"]


def read_variables(parser: ArgumentParser, prefix: str, env: Mapping[str, str]) -> Iterator[str]:
    """Turn environment variables into words of a command line: PREFIX_PORT=80 into `--port=80`.

    PREFIX_FLAG=1 sets a flag, and 0 does not. For an option that may be repeated, the variable
    lists the values, quoted as in a shell if they contain spaces.

    Raises: ConfigError if a variable with this prefix does not name an option.
    """
    actions = {
        f"{prefix}{action.dest.upper()}": action
        for action in parser._actions
        if action.option_strings and action.dest != "help"
    }
    for name, value in sorted(env.items()):
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
    """A parser of all commands, for help, mistakes and completion; it cannot intermix."""
    keep = RawDescriptionHelpFormatter
    root = Parser("seq2seq", "seq2seq COMMAND ...", __doc__, formatter_class=keep)
    root.add_argument("--version", action="version", version=__version__)
    complete = "print the completion for a shell: seq2seq --completion bash >> ~/.bashrc"
    root.add_argument("--completion", action=PrintCompletion, choices=SHELLS, help=complete)
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser("train", help="train a model; `seq2seq train --help` shows its options")
    for name in COMMANDS:
        add_options(commands.add_parser(name, help=module_of(name).HELP), options_class(name))
    return root


def command_parser(name: str) -> ArgumentParser:
    module = module_of(name)
    parser = Parser(
        prog=f"seq2seq {name}",
        usage=getattr(module, "USAGE", None),
        description=module.__doc__,
        formatter_class=RawDescriptionHelpFormatter,  # keeps the line breaks
    )
    add_options(parser, options_class(name), getattr(module, "OFTEN", ()))
    parser.usage = parser.usage or short_usage(parser)
    return parser


def short_usage(parser: ArgumentParser) -> str:
    """The usage of a command with only the options that are required."""
    groups = [group for group in parser._mutually_exclusive_groups if group.required]
    either = chain(*(group._group_actions for group in groups))
    needed = [each for each in parser._actions if each.required or not each.option_strings]
    formatter = parser._get_formatter()
    formatter.add_usage(None, [*needed, *either], groups, "")
    return f"{formatter.format_help().strip()} [options]"


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {printable(str(message))}", file=sys.stderr)
