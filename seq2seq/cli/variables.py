"""Options of a command from environment variables, as containers and services set them."""

import shlex
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping

from seq2seq.errors import ConfigError


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
