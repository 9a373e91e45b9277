"""Options of the service from environment variables, as a container sets them."""

from pathlib import Path

import pytest

from seq2seq.base.errors import ConfigError
from seq2seq.cli.main import command_parser, parse_arguments, read_variables
from seq2seq.cli.serve import VARIABLES

CONTAINER = Path(__file__).resolve().parents[2] / "scripts" / "container"


def read(**environment: str) -> list[str]:
    given = {f"{VARIABLES}{name}": value for name, value in environment.items()}
    return list(read_variables(command_parser("serve"), VARIABLES, {"HOME": "/root", **given}))


def test_a_variable_has_the_effect_of_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["--port", "80", "--no-auth", "--allow-host", "a", "--allow-host", "b c", "--workers=2"]
    variables = {"PORT": "80", "NO_AUTH": "1", "ALLOW_HOST": "a 'b c'", "WORKERS": "2"}
    wanted = parse_arguments(["serve", "RUN", *typed])
    for name, value in variables.items():
        monkeypatch.setenv(f"{VARIABLES}{name}", value)
    assert parse_arguments(["serve", "RUN"]) == wanted
    assert parse_arguments(["serve", "RUN", "--port", "81"]).access.port == 81
    monkeypatch.setenv(f"{VARIABLES}NO_AUTH", "0")
    assert not parse_arguments(["serve", "RUN"]).access.no_auth


def test_a_value_is_one_word_whatever_it_contains() -> None:
    assert read(HOST="--no-auth") == ["--host=--no-auth"]


@pytest.mark.parametrize(
    "environment, message",
    [({"PROT": "80"}, "SERVE_PROT is no option.*SERVE_PORT"), ({"NO_AUTH": "yes"}, "should be 1")],
)
def test_variables_without_an_option_or_a_valid_value_are_refused(
    environment: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**environment)


def test_the_variables_of_the_container_are_options() -> None:
    lines = (CONTAINER / "Dockerfile").read_text().splitlines()
    words = [word for line in lines if line.startswith("ENV ") for word in line.split()[1:]]
    own = [word.removeprefix(VARIABLES) for word in words if word.startswith(VARIABLES)]
    assert read(**dict(word.split("=") for word in own)) == ["--host=0.0.0.0", "--no-auth"]
