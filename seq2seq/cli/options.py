"""Options that several commands share."""

import argparse
from pathlib import Path

from seq2seq.errors import ConfigError


def add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("path", metavar="PATH", help="a checkpoint, or the folder of a run")
    command.add_argument("--device", default="auto", help="cpu, cuda or auto (%(default)s)")
    command.add_argument("--tag", help="of the training corpus whose translations are wanted")


def add_search(command: argparse.ArgumentParser) -> None:
    command.add_argument("--beam-size", type=positive, help="hypotheses kept; 1 is greedy")
    command.add_argument(
        "--length-penalty", type=float, help="score = log-probability / length^penalty"
    )


def check_output(path: Path) -> None:
    """Raises: ConfigError if no file can be written there. Asked before the work is done."""
    if not path.parent.is_dir():
        raise ConfigError(f"-o {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise ConfigError(f"-o {path} is a folder: give the name of a file")


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} should be at least 1")
    return value
