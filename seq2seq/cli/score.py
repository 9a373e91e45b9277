"""Log-probabilities of given translations: one JSON object per pair, in the order of the files.

    {"log_probability": -3.25, "pieces": 4}

Natural log-probabilities are summed over the pieces of the translation, its end included. For a
pair that cannot be scored both values are null, "reason" says why, and the exit code is 1.
The perplexity per piece of all pairs goes to stderr.
"""

import argparse
import json
import math
import sys
from typing import Any

from seq2seq.cli.files import InputPath, check_written, inputs_of
from seq2seq.cli.options import add_ensemble, add_model, open_models
from seq2seq.data.text import check_parallel, read_lines

HELP = "log-probabilities of given translations"


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    add_ensemble(command)
    add = command.add_argument
    add("source", type=InputPath, metavar="SRC", help="a sentence per line, may be .gz")
    add("reference", type=InputPath, metavar="REF", help="their translations")
    add("--tokens", action="store_true", help="also print each piece with its log-probability")


def run(arguments: argparse.Namespace) -> int:
    check_written(None, *inputs_of(arguments))
    pairs = check_parallel(arguments.source, arguments.reference, "scoring")
    translator = open_models(arguments.path, arguments)
    texts = zip(read_lines(arguments.source), read_lines(arguments.reference), strict=True)
    total, pieces, scored = 0.0, 0, 0
    for score in translator.scores(texts):
        row: dict[str, Any] = {"log_probability": score.log_probability, "pieces": None}
        if score.log_probability is None:
            row["reason"] = score.reason
        else:
            row["pieces"] = len(score.tokens)
            total += score.log_probability
            pieces += len(score.tokens)
            scored += 1
            if arguments.tokens:
                row["tokens"] = score.tokens
        print(json.dumps(row, ensure_ascii=False))
    print(f"{perplexity(total, pieces)} of {scored} of {pairs} pairs", file=sys.stderr)
    return int(scored < pairs)


def perplexity(log_probability: float, pieces: int) -> str:
    """exp(-log-probability / pieces) in words."""
    if not pieces:
        return "no perplexity"
    mean = -log_probability / pieces
    # exp leaves the range of floating-point numbers near 710.
    value = math.exp(mean) if mean < 700 else math.inf
    return f"perplexity {value:.4g} per piece, {pieces} pieces with the ends,"
