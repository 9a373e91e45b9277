"""Log-probabilities of given translations: one JSON object per pair, in the order of the files.

    {"log_probability": -3.25, "pieces": 4}

Natural log-probabilities are summed over the pieces of the translation, its end included. If a pair
cannot be scored, both values are null, "reason" says why, and the exit code is 1. The perplexity
per piece of all pairs is printed to stderr.

    seq2seq score PATH SRC REF -o scores.jsonl       resumes if it was interrupted

scores.json then records the model and the files.
"""

import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.cli.files import InputPath, check_written, inputs_of
from seq2seq.cli.models import EnsembleOptions, ModelOptions, open_models
from seq2seq.cli.options import argument, flag, value
from seq2seq.data.corpus.cache import file_entry
from seq2seq.data.text.lines import check_parallel, read_lines
from seq2seq.data.text.provenance import check_ledger, describe_provenance, write_provenance

if TYPE_CHECKING:
    from seq2seq.metrics.scoring import TranslationScore

HELP = "log-probabilities of given translations"
AHEAD = 2000  # pairs whose batches are made together; resumed scores begin with such a window


class ScoreOptions(ModelOptions):
    """The options of `seq2seq score`."""

    source: InputPath = argument("a sentence per line, may be .gz", "SRC")
    reference: InputPath = argument("their translations", "REF")
    ensemble: EnsembleOptions
    tokens: bool = flag("also print each piece with its log-probability")
    output: Path | None = value("write to FILE.jsonl, and resume if it exists", "FILE", "-o")


def run(options: ScoreOptions) -> int:
    check_written(options.output, *inputs_of(options))
    pairs = check_parallel(options.source, options.reference, "scoring")
    if options.output is None:
        return report(write_rows(score_rows(options, 0), sys.stdout), pairs)
    ledger = options.output.with_suffix(".json")
    entry = describe_scores(options, options.output, ledger)
    write_provenance(ledger, entry)
    count = cut_to_windows(options.output)
    with options.output.open("a", encoding="utf-8", newline="\n") as file:
        after = write_rows(score_rows(options, count), file)
        code = report(chain(iterate_rows(options.output, count), after), pairs)
    write_provenance(ledger, {**entry, "outputs": [file_entry(options.output)]})
    return code


def describe_scores(options: ScoreOptions, output: Path, ledger: Path) -> dict[str, Any]:
    """A ledger of the model, files and options that scores depend on.

    Raises: ConfigError if the output is not a .jsonl file, or holds other scores.
    """
    from seq2seq.checkpoint.folder import find_checkpoint  # only here: torch takes a second

    if output.suffix != ".jsonl":
        raise ConfigError(f"-o {output} should end with .jsonl: -o scores.jsonl")
    check_written(ledger, *inputs_of(options))
    check_ledger(ledger, "score")
    models = options.ensemble.paths(options.path)
    inputs: list[Path] = [options.source, options.reference, *map(find_checkpoint, models)]
    ensemble = {"weights": options.ensemble.weights, "mean": options.ensemble.mean}
    languages = {"languages": list(options.languages)} if any(options.languages) else {}
    chosen = {"tag": options.tag, "tokens": options.tokens, **languages, **ensemble}
    entry = describe_provenance("score", inputs, [], models=list(map(str, models)), options=chosen)
    if output.exists() and output.stat().st_size:
        known: Any = None
        with suppress(OSError, ValueError):
            known = {**json.loads(ledger.read_text(encoding="utf-8")), "outputs": []}
        if known != entry:
            raise ConfigError(
                f"-o {output} holds something else than scores of this model and these files, or "
                f"{ledger}, which describes them, is missing: give another name, or delete it"
            )
    return entry


def cut_to_windows(path: Path) -> int:
    """Cut off the rows after the last complete window. Returns: the number of remaining rows.

    Incomplete windows are scored again, so that batches, and thus the last digits of scores, are
    the same as in an uninterrupted run.
    """
    rows = length = 0
    with path.open("a+b") as file:
        file.seek(0)
        while len(window := [*islice(file, AHEAD)]) == AHEAD and window[-1].endswith(b"\n"):
            rows, length = rows + AHEAD, length + sum(map(len, window))
        file.truncate(length)
    return rows


def iterate_rows(path: Path, count: int) -> Iterator[dict[str, Any]]:
    """Read the first rows of a file of scores. Raises: DataError if one is not a JSON object."""
    with path.open("rb") as file:
        for number, line in enumerate(islice(file, count), 1):
            try:
                yield dict(json.loads(line))
            except (ValueError, TypeError) as error:
                raise DataError(
                    f"{path}, line {number}: it is damaged. Delete the file to score all again"
                ) from error


def score_rows(options: ScoreOptions, skipped: int) -> Iterator[dict[str, Any]]:
    """A row for each pair after the first `skipped` ones."""
    translator = open_models(options.path, options, options.ensemble)
    texts = zip(read_lines(options.source), read_lines(options.reference), strict=True)
    scores = translator.scores(islice(texts, skipped, None), look_ahead=AHEAD)
    return (row_of(score, options.tokens) for score in scores)


def row_of(score: "TranslationScore", tokens: bool) -> dict[str, Any]:
    if score.log_probability is None:
        return {"log_probability": None, "pieces": None, "reason": score.reason}
    row = {"log_probability": score.log_probability, "pieces": len(score.tokens)}
    return {**row, "tokens": score.tokens} if tokens else row


def write_rows(rows: Iterable[dict[str, Any]], file: TextIO) -> Iterator[dict[str, Any]]:
    for row in rows:
        file.write(f"{json.dumps(row, ensure_ascii=False)}\n")
        yield row


def report(rows: Iterable[dict[str, Any]], pairs: int) -> int:
    """Print the perplexity of all rows. Returns: the exit code."""
    total, pieces, scored = 0.0, 0, 0
    for row in rows:
        if row["log_probability"] is not None:
            total += row["log_probability"]
            pieces += row["pieces"]
            scored += 1
    print(f"{perplexity(total, pieces)} of {scored} of {pairs} pairs", file=sys.stderr)
    return int(scored < pairs)


def perplexity(log_probability: float, pieces: int) -> str:
    """exp(-log-probability / pieces), as text."""
    if not pieces:
        return "no perplexity"
    mean = -log_probability / pieces
    # exp leaves the range of floating-point numbers near 710.
    value = math.exp(mean) if mean < 700 else math.inf
    return f"perplexity {value:.4g} per piece, {pieces} pieces with the ends,"
