"""Translate a test set and score it: BLEU, chrF and TER by sacreBLEU, on detokenised text, with
signatures. BLEU and chrF: 100 is best; TER counts edits for 100 words, 0 is best.
"""

import argparse
import json
import sys
from pathlib import Path

from seq2seq.cli.options import (
    add_engine,
    add_model,
    add_search,
    check_output,
    engine_options,
    search_options,
)
from seq2seq.cli.results import one_line
from seq2seq.data.text import check_parallel, read_lines

HELP = "score translations of a test set"


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    command.add_argument("source", type=Path, metavar="SRC", help="a sentence a line, may be .gz")
    command.add_argument("reference", type=Path, metavar="REF", help="its translations")
    command.add_argument("-o", "--output", type=Path, help="also write the translations here")
    command.add_argument("--json", action="store_true", help="print one JSON object instead")
    add_search(command)
    add_engine(command)


def run(arguments: argparse.Namespace) -> int:
    search, options = search_options(arguments), engine_options(arguments)
    check_parallel(arguments.source, arguments.reference)
    if arguments.output:
        check_output(arguments.output)
    from seq2seq.evaluation.bleu import score  # only here: torch and sacreBLEU take a second
    from seq2seq.translator import Translator

    translator = Translator.load(arguments.path, arguments.device, arguments.tag)
    engine = translator.engine(translator.search(**search), **options)
    translations = list(translator.stream(read_lines(arguments.source), engine))
    hypotheses = [found[0].text if found else "" for found in translations]
    if arguments.output:
        lines = "".join(f"{one_line(text)}\n" for text in hypotheses)
        arguments.output.write_text(lines, encoding="utf-8", newline="\n")
    language = translator.config["data"]["target"]
    scores = score(hypotheses, list(read_lines(arguments.reference)), language=language)
    if arguments.json:
        print(json.dumps({s.name: {"score": s.value, "signature": s.signature} for s in scores}))
    else:
        for found in scores:
            print(f"{found.name} {found.value:.1f}")
        for found in scores:
            print(found.signature)
    if arguments.stats:
        print(engine.stats, file=sys.stderr)
    return int(None in translations)
