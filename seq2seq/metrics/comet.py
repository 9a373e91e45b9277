"""COMET as a command of another environment: it needs older libraries than this project."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2seq.errors import ConfigError, DataError

INSTALL = (
    "COMET needs a separate environment: python -m venv comet && comet/bin/pip install "
    "unbabel-comet; then --comet comet/bin/comet-score"
)
SCORE = re.compile(r"\bscore:\s*(-?\d+(?:\.\d+)?)")


def comet_command(typed: str) -> list[str]:
    """The command and its options. Raises: ConfigError if there is no such program."""
    try:
        words = shlex.split(typed)
    except ValueError as error:
        raise ConfigError(f"--comet {typed}: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise ConfigError(f"--comet {typed}: there is no such program. {INSTALL}")
    return words


def comet_score(
    command: Sequence[str],
    source: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
) -> float:
    """The system score that `comet-score` prints, with the four digits that it prints.

    Args:
        command: from `comet_command`; its options choose the model (`--model`) and `--gpus`.
        references: one for each sentence.

    Raises: DataError with what the command said if it fails or prints no score.
    Source: Rei et al. 2020 (2020.emnlp-main.213).
    """
    with TemporaryDirectory() as folder:
        paths = {}
        for name, lines in (("-s", source), ("-t", hypotheses), ("-r", references)):
            paths[name] = Path(folder) / f"lines{name}.txt"
            # For COMET a lone CR ends a line, too.
            text = "".join(line.replace("\r", " ").replace("\n", " ") + "\n" for line in lines)
            paths[name].write_text(text, encoding="utf-8", newline="\n")
        files = [word for name, path in paths.items() for word in (name, str(path))]
        ended = subprocess.run(
            [*command, *files, "--quiet"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
    printed = SCORE.findall(ended.stdout)
    if ended.returncode or not printed:
        said = (ended.stderr.strip() or ended.stdout.strip() or "nothing").splitlines()[-1]
        raise DataError(
            f"{shlex.join(command)} ended with code {ended.returncode} and no score, saying: {said}"
        )
    return float(printed[-1])
