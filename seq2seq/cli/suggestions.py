"""Collect the suggestions that a service has kept into a corpus for training.

    seq2seq suggestions FOLDER -o corrections.jsonl      for seq2seq serve --keep-in FOLDER

Of several suggestions for one text, the last one is used. White space becomes single spaces.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from seq2seq.base.durable import write_text
from seq2seq.base.errors import ConfigError, format_count
from seq2seq.cli.files import InputPath, check_written, inputs_of
from seq2seq.cli.options import Options, argument, value
from seq2seq.data.text.formats import FORMATS, format_row
from seq2seq.serving.storage import SUGGESTIONS, Record, Storage

HELP = "collect the suggestions that a service has kept into a corpus"
KEYS = ("text", "translation")

Rows = list[tuple[str, str, int]]  # text, translation, and number of suggestions


class SuggestionsOptions(Options):
    """The options of `seq2seq suggestions`."""

    folder: InputPath = argument("the folder of serve --keep-in", "FOLDER")
    output: Path = value("a .jsonl or .tsv file", "FILE", "-o", required=True)
    languages: str | None = value("language pair, if there are several", "DE-EN")


def run(options: SuggestionsOptions) -> None:
    output, folder = options.output, options.folder
    if output.suffix not in FORMATS:
        raise ConfigError(f"-o {output} should end with .jsonl or .tsv: -o corrections.jsonl")
    check_written(output, *inputs_of(options))
    if not (folder / SUGGESTIONS.name).is_dir():
        raise ConfigError(f"{folder} has no suggestions: give the folder of serve --keep-in FOLDER")
    records = sorted(Storage(folder).list_all(SUGGESTIONS), key=lambda each: each.created_at)
    pair = choose_pair(records, options.languages)
    rows = collect(record for record in records if pair_of_languages(record) == pair)
    source, target = pair.split("," if "," in pair else "-")
    write_text(output, format_rows(rows, source, target, output.suffix))
    print(f"{format_count(len(rows), 'pair')} of {format_count(len(records), 'suggestion')}")
    print(f"train with it: data.source={source} data.target={target}, and as a part of data.train,")
    print(f"  corrections: {{path: {output}, weight: 5}}")


def pair_of_languages(record: Record) -> str:
    languages = record.metadata["source"], record.metadata["target"]
    return ("," if "-" in "".join(languages) else "-").join(languages)


def choose_pair(records: Iterable[Record], given: str | None) -> str:
    """The languages given, or else the only pair. Raises: ConfigError if there is no such pair."""
    counts = Counter(map(pair_of_languages, records))
    named = (pair for pair in counts if not given or pair.lower() == given.lower())
    pair = next(named, "")
    if pair not in counts or (not given and len(counts) > 1):
        known = ", ".join(f"--languages {pair} ({n:,})" for pair, n in counts.items())
        raise ConfigError(f"a corpus is for one pair of languages. Choose from: {known or 'none'}")
    return pair


def collect(records: Iterable[Record]) -> Rows:
    """The last translation of each text, in the order of the texts' first suggestions."""
    counts: Counter[str] = Counter()
    last: dict[str, str] = {}
    for record in records:
        text, translation = (" ".join(record.metadata[key].split()) for key in KEYS)
        counts[text] += 1
        last[text] = translation
    return [(text, translation, counts[text]) for text, translation in last.items()]


def format_rows(rows: Rows, source: str, target: str, suffix: str) -> str:
    """The content of a corpus file, in a format that `seq2seq.data.text.formats` reads."""
    columns = (source, target, "count")
    head = [] if suffix == ".jsonl" else [columns]
    return "".join(f"{format_row(suffix, columns, row)}\n" for row in (*head, *rows))
