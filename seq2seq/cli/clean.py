"""Clean parallel text: leave out the pairs that break a rule, and say which and why.

    seq2seq clean my/train --source de --target en -o my/clean       my/train.de and my/train.en
    seq2seq clean a.tsv b.jsonl --source de --target en -o c.jsonl   --source and --target: columns
    seq2seq clean ... --max-words 80 --numbers off --page examples.html
    seq2seq clean ... --scores forward.jsonl --scores backward.jsonl --best 0.8

A pair that stays is not changed. How many went by which rule is in a ledger beside the output,
my/clean.json. Words are characters in languages without spaces between words.
"""

import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.base.errors import ConfigError, printable
from seq2seq.base.progress import Tally, show_tally
from seq2seq.cli.files import InputPath, check_uncompressed, check_written, inputs_of
from seq2seq.cli.options import Option, add_options, numeric, option_name
from seq2seq.data.cleaning.rules import DUPLICATES, RULES
from seq2seq.data.text.formats import Pair, TextFormat, find_format
from seq2seq.data.text.lines import check_parallel
from seq2seq.text.languages import LANGUAGE_CODES, language_code, read_language

if TYPE_CHECKING:
    from seq2seq.data.cleaning.verdicts import Examples, Verdicts

HELP = "leave out pairs of parallel text that break a rule"
CORPUS = "as data.train of a training: my/train, my/train.tsv, my/train.jsonl, [a.txt,b.txt]"
NAMES = {
    "source": Option(str, "DE", "source: end of its file's name, or its column"),
    "target": Option(str, "EN", "target, likewise"),
    "languages": Option(str, "DE-EN", "their languages, if --source and --target do not say them"),
    "page": Option(Path, "HTML", "a page of examples of each rule"),
}


def limit_of(low: float, high: float) -> Callable[[str], float | str]:
    """Reads a limit, or `off`."""

    def limit(text: str) -> float | str:
        if text == "off":
            return text
        with suppress(ValueError):  # no number
            if low <= (number := numeric(text)) <= high:
                return number
        raise ArgumentTypeError(f"{text} should be {low:,} to {high:,}, or off")

    return limit


OF_PAIRS = {
    name: Option(
        limit_of(*rule.range) if rule.range else ("on", "off"), "N", rule.help, rule.default
    )
    for name, rule in RULES.items()
}
OF_CORPUS = {
    "duplicates": Option(DUPLICATES, None, "no pair twice; target: no target twice", "pair"),
    "best": Option(limit_of(0, 1), "SHARE", "this share of what is left, by --scores", "off"),
}
OPTIONS = {**OF_PAIRS, **OF_CORPUS}


def add_arguments(command: ArgumentParser) -> None:
    add = command.add_argument
    add("corpora", nargs="*", metavar="CORPUS", help=CORPUS)
    add("-o", "--output", type=Path, metavar="OUT", help="OUT.DE and OUT.EN, a .tsv or a .jsonl")
    add_options(command, NAMES)
    scores = "a score for each pair; twice for both directions"
    add("--scores", type=InputPath, action="append", default=[], metavar="FILE", help=scores)
    add("--print-rules", action="store_true", help="print the rules as options, and end")
    group = command.add_argument_group("rules, in this order; off turns one off")
    add_options(group, OPTIONS)


def run(arguments: Namespace) -> int:
    if arguments.print_rules:
        for name, option in OPTIONS.items():
            print(f"{option_name(name)} {getattr(arguments, name)}".ljust(26), option.help)
        return 0
    corpora = find_corpora(arguments)
    read = [file for text in corpora for file in text.files]
    outputs, ledger = find_outputs(arguments, read)
    from seq2seq.data.cleaning.verdicts import write_kept
    from seq2seq.data.corpus.cache import file_state

    judged = {path: file_state(path) for path in read}
    verdicts = judge_corpora(arguments, corpora)
    columns = arguments.source, arguments.target
    examples = write_kept(outputs, columns, pairs_of(corpora), verdicts, judged)
    entry = write_cleaning(ledger, arguments, read, outputs, verdicts)
    if arguments.page:
        from seq2seq.pages.report import write_cleaning_page  # only here: torch takes a second

        write_cleaning_page(arguments.page, entry, examples)
    names = ", ".join(map(str, outputs))
    print(printable(f"{names}: {entry['kept']:,} of {entry['read']:,} pairs"))
    for name, found in entry["left_out"].items():
        print(f"{found['count']:>12,}  {option_name(name)}")
    warn_of_large_shares(entry, examples)
    return 0 if entry["kept"] else 1


def warn_of_large_shares(entry: Mapping[str, Any], examples: "Examples") -> None:
    """Warn of each rule that has left out more than half of the pairs, with three of them."""
    for name, found in entry["left_out"].items():
        if 2 * found["count"] > entry["read"] and name != "best":
            share = f"{found['count']:,} of {entry['read']:,} pairs, more than half"
            advice = "If these are good, change its limit, or name the --languages"
            shown = (f"{number:,}: {' | '.join(pair)}" for number, pair in examples[name][:3])
            words = f"{option_name(name)} left out {share}. {advice}:"
            lines = [words, *(printable(each[:200]) for each in shown)]
            warnings.warn("\n  ".join(lines), stacklevel=1)


def find_outputs(arguments: Namespace, read: Sequence[Path]) -> tuple[list[Path], Path]:
    """The files of the kept pairs, and the ledger. Raises: ConfigError if one cannot be written."""
    from seq2seq.data.cleaning.verdicts import output_paths
    from seq2seq.data.text.provenance import check_ledger

    check_uncompressed(arguments.output)
    outputs = output_paths(arguments.output, (arguments.source, arguments.target))
    stem = arguments.output.with_suffix("") if len(outputs) == 1 else arguments.output
    ledger = Path(f"{stem}.json")
    written = [*outputs, ledger, *filter(None, [arguments.page])]
    if len({path.resolve() for path in written}) < len(written):
        raise ConfigError(f"{', '.join(map(str, written))} should be different files")
    for path in written:
        check_written(path, *read, *inputs_of(arguments))
    check_ledger(ledger, "clean")
    return outputs, ledger


def write_cleaning(
    path: Path,
    arguments: Namespace,
    read: Sequence[Path],
    outputs: Sequence[Path],
    verdicts: "Verdicts",
) -> dict[str, Any]:
    """Write the ledger: which files, by which rules, and what went."""
    from seq2seq.data.cleaning.verdicts import count_outcomes
    from seq2seq.data.text.provenance import describe_provenance, write_provenance

    left_out = count_outcomes(verdicts)
    entry = describe_provenance(
        "clean",
        [*read, *arguments.scores],
        outputs,
        corpora=arguments.corpora,
        columns=[arguments.source, arguments.target],
        languages=languages_of(arguments),
        rules={name: getattr(arguments, name) for name in OPTIONS},
        read=len(verdicts),
        kept=len(verdicts) - sum(each["count"] for each in left_out.values()),
        left_out=left_out,
    )
    write_provenance(path, entry)
    return entry


def find_corpora(arguments: Namespace) -> list[TextFormat]:
    """The texts to clean. Raises: ConfigError for arguments that are missing or do not fit
    together; DataError for missing files, and for two of different lengths.
    """
    if not arguments.corpora:
        raise ConfigError("there is nothing to clean: give a CORPUS, such as my/train")
    for name in ("source", "target", "output"):
        if getattr(arguments, name) is None:
            raise ConfigError(f"add --{name}: --source de --target en -o my/clean")
    is_scored = arguments.best != "off" or arguments.duplicates == "target"
    if arguments.best != "off" and not arguments.scores:
        raise ConfigError("--best needs scores: add --scores FILE, with a line for each pair")
    if len(arguments.scores) > 2 or (arguments.scores and not is_scored):
        raise ConfigError("--scores takes 1 or 2 files, for --best or --duplicates target")
    corpora = []
    for given in arguments.corpora:
        is_list = given[:1] + given[-1:] == "[]"
        spec = [*map(str.strip, given[1:-1].split(","))] if is_list else given
        corpora.append(find_format(spec, arguments.source, arguments.target, "CORPUS"))
        if len(files := corpora[-1].files) == 2:
            check_parallel(files[0], files[1], "cleaning")
    return corpora


def pairs_of(corpora: Sequence[TextFormat]) -> Iterator[Pair]:
    return chain.from_iterable(text.pairs() for text in corpora)


def languages_of(arguments: Namespace) -> Pair:
    """The languages of source and target. Raises: ConfigError for --languages without two."""
    if arguments.languages is None:
        return arguments.source, arguments.target
    languages = arguments.languages.split("," if "," in arguments.languages else "-")
    if len(languages) != 2 or not all(languages):
        raise ConfigError(f"--languages {arguments.languages} should be two: de-en, or pt-BR,en")
    return languages[0], languages[1]


def check_languages(arguments: Namespace, languages: Pair) -> None:
    """Warn of columns that are not named after languages. Raises: ConfigError for --languages that
    do not exist.
    """
    names = " or ".join(repr(each) for each in languages if not read_language(each).is_known)
    problem = f"no language has the code {names}"
    if names and arguments.languages:
        raise ConfigError(f"--languages: {problem}, {LANGUAGE_CODES}")
    if names:
        effect = "words are what is between spaces, and letters may be of any script"
        warnings.warn(f"{problem}: {effect}. Add --languages de-en", stacklevel=1)


def judge_corpora(arguments: Namespace, corpora: Sequence[TextFormat]) -> "Verdicts":
    """The verdicts on all pairs. Raises: ConfigError if languages cannot be told; DataError for a
    faulty file.
    """
    from seq2seq.data.cleaning.verdicts import judge, read_scores

    languages = languages_of(arguments)
    check_languages(arguments, languages)
    limits = {name: getattr(arguments, name) for name in OF_PAIRS}
    limits = {name: limit for name, limit in limits.items() if limit != "off"}
    if "language" in limits:
        limits["language"] = identifier(languages)
    best = 1.0 if arguments.best == "off" else arguments.best
    scores = read_scores(arguments.scores) if arguments.scores else None
    tally = Tally("cleaning", "pairs")
    with show_tally(tally, sys.stderr) if sys.stderr else nullcontext():
        pairs = tally.count(pairs_of(corpora))
        return judge(pairs, languages, limits, arguments.duplicates, scores, best)


def identifier(languages: Pair) -> Callable[[str, str], str]:
    """The function `identify` of `is_foreign`: (text, language) -> language.

    Raises: ConfigError if py3langid is missing, or knows none of these languages.
    """
    from seq2seq.serving.languages import NO_DETECTOR, detect, load_detector

    if (detector := load_detector()) is None:
        raise ConfigError(NO_DETECTOR)
    known = {language_code(code) for code, _ in detector.rank("")}
    if unknown := [each for each in languages if language_code(each) not in known]:
        raise ConfigError(
            f"--language on: py3langid knows no {unknown[0]!r}. Name the languages: "
            "--languages de-en, or --language off"
        )
    return lambda text, language: language_code(detect(text, (language,)).language)
