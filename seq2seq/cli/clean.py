"""Clean parallel text: leave out the pairs that break a rule, and report them.

    seq2seq clean my/train --source de --target en -o my/clean       my/train.de and my/train.en
    seq2seq clean a.tsv b.jsonl --source de --target en -o c.jsonl   --source and --target: columns
    seq2seq clean ... --max-words 80 --numbers off --page examples.html
    seq2seq clean ... --held-out my/valid --held-out my/test
    seq2seq clean ... --scores forward.jsonl --scores backward.jsonl --best 0.8

Pairs that are kept are not changed. The ledger beside the output, my/clean.json, counts the pairs
that each rule left out. In languages without spaces between words, characters count as words.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, make_dataclass
from itertools import chain, starmap
from pathlib import Path
from typing import Any, Literal

from seq2seq.base.errors import ConfigError, printable
from seq2seq.base.options import DECLARED
from seq2seq.base.progress import Tally, show_tally
from seq2seq.cli.files import InputPath, check_name, check_written, inputs_of
from seq2seq.cli.options import argument, flag, group, numeric, option_name, repeated, value
from seq2seq.data.cleaning import verdicts
from seq2seq.data.cleaning.rules import RULES, Rule
from seq2seq.data.corpus.cache import file_state
from seq2seq.data.text.formats import Pair, TextFormat, find_format
from seq2seq.data.text.lines import check_parallel
from seq2seq.data.text.provenance import check_ledger, describe_provenance, write_provenance
from seq2seq.text.languages import LANGUAGE_CODES, language_code, read_language

HELP = "leave out pairs of parallel text that break a rule"
CORPUS = "in a format of data.train: my/train, my/train.tsv, my/train.jsonl, [a.txt,b.txt]"


def limit_of(low: float, high: float) -> Callable[[str], float | str]:
    """A function that reads a limit in this range, or `off`."""

    def limit(text: str) -> float | str:
        if text == "off":
            return text
        with suppress(ValueError):  # no number
            if low <= (number := numeric(text)) <= high:
                return number
        raise ConfigError(f"{text} should be {low:,} to {high:,}, or off")

    return limit


def rule_field(name: str, rule: Rule) -> tuple[str, Any, Any]:
    """Name, type and field of the option for a rule."""
    if rule.range is None:
        return name, Literal["on", "off"], value(rule.help, default=rule.default)
    read = limit_of(*rule.range)
    return name, Any, value(rule.help, "N", default=rule.default, type=read)


PairRules = make_dataclass("PairRules", starmap(rule_field, RULES.items()), frozen=True)


@dataclass(frozen=True, kw_only=True)
class RuleOptions(PairRules):  # type: ignore[misc,valid-type]  # made from a table
    """The limits of all rules, or `off`."""

    duplicates: Literal["pair", "target", "off"] = value(
        "leave out repeated pairs; target: repeated targets", default="pair"
    )
    best: float | str = value(
        "keep this share of the remaining pairs, by --scores",
        "SHARE",
        default="off",
        type=limit_of(0, 1),
    )


@dataclass(frozen=True, kw_only=True)
class CleanOptions:
    """The options of `seq2seq clean`."""

    corpora: Sequence[str] = argument(CORPUS, "CORPUS", nargs="*")
    output: Path | None = value("write OUT.DE and OUT.EN, a .tsv or a .jsonl", "OUT", "-o")
    source: str | None = value("source: suffix of its file, or name of its column", "DE")
    target: str | None = value("target: likewise", "EN")
    languages: str | None = value("languages, if --source and --target do not name them", "DE-EN")
    page: Path | None = value("write a page of examples of each rule", "HTML")
    scores: Sequence[InputPath] = repeated("scores, one per pair; twice: both directions", "FILE")
    held_out: Sequence[str] = repeated("leave out pairs that share a side with this text", "CORPUS")
    print_rules: bool = flag("print the rules as options, and exit")
    rules: RuleOptions = group("rules, in this order; off disables a rule")

    @property
    def columns(self) -> Pair:
        """Names of source and target, which `check_required_options` makes sure of."""
        return self.source or "", self.target or ""


def run(options: CleanOptions) -> int:
    if options.print_rules:
        for each in fields(RuleOptions):
            limit = getattr(options.rules, each.name)
            print(f"{option_name(each.name)} {limit}".ljust(26), each.metadata[DECLARED].help)
        return 0
    output = check_required_options(options)
    corpora = find_corpora(options, options.corpora, "CORPUS")
    held_out = find_corpora(options, options.held_out, "--held-out")
    read = [file for text in (*corpora, *held_out) for file in text.files]
    outputs, ledger = find_outputs(options, output, read)
    states = {path: file_state(path) for path in read}
    languages = find_languages(options)
    judged = judge_corpora(options, corpora, languages, [*pairs_of(held_out)])
    examples = verdicts.write_kept(outputs, options.columns, pairs_of(corpora), judged, states)
    left_out = verdicts.count_outcomes(judged)
    entry = describe_provenance(
        "clean",
        [*read, *options.scores],
        outputs,
        corpora=options.corpora,
        held_out=list(options.held_out),
        columns=list(options.columns),
        languages=languages,
        rules=asdict(options.rules),
        read=len(judged),
        kept=len(judged) - sum(each["count"] for each in left_out.values()),
        left_out=left_out,
    )
    write_provenance(ledger, entry)
    if options.page:
        from seq2seq.pages.report import write_cleaning_page  # only here: torch takes a second

        write_cleaning_page(options.page, entry, examples)
    names = ", ".join(map(str, outputs))
    print(printable(f"{names}: {entry['kept']:,} of {entry['read']:,} pairs"))
    for name, found in left_out.items():
        print(f"{found['count']:>12,}  {option_name(name)}")
    warn_of_large_shares(entry, examples)
    return 0 if entry["kept"] else 1


def check_required_options(options: CleanOptions) -> Path:
    """The output. Raises: ConfigError if options are missing, or do not go together."""
    if not options.corpora:
        raise ConfigError("there is nothing to clean: give a CORPUS, such as my/train")
    needed = {"source": options.source, "target": options.target, "output": options.output}
    if missing := [name for name, value in needed.items() if value is None]:
        raise ConfigError(f"add --{missing[0]}: --source de --target en -o my/clean")
    best, scores = options.rules.best, options.scores
    is_scored = best != "off" or options.rules.duplicates == "target"
    if best != "off" and not scores:
        raise ConfigError("--best needs scores: add --scores FILE, with a line for each pair")
    if len(scores) > 2 or (scores and not is_scored):
        raise ConfigError("--scores takes 1 or 2 files, for --best or --duplicates target")
    return options.output or Path()


def warn_of_large_shares(entry: Mapping[str, Any], examples: verdicts.Examples) -> None:
    """Warn of each rule that left out more than half of the pairs, and show three of these."""
    for name, found in entry["left_out"].items():
        if 2 * found["count"] > entry["read"] and name != "best":
            share = f"{found['count']:,} of {entry['read']:,} pairs, more than half"
            advice = "If these are good, change its limit, or name the --languages"
            shown = (f"{number:,}: {' | '.join(pair)}" for number, pair in examples[name][:3])
            words = f"{option_name(name)} left out {share}. {advice}:"
            lines = [words, *(printable(each[:200]) for each in shown)]
            warnings.warn("\n  ".join(lines), stacklevel=1)


def find_outputs(options: CleanOptions, output: Path, read: list[Path]) -> tuple[list[Path], Path]:
    """The files to write, and the ledger. Raises: ConfigError if one of them cannot be written."""
    check_name(output)
    outputs = verdicts.output_paths(output, options.columns)
    stem = output.with_suffix("") if len(outputs) == 1 else output
    ledger = Path(f"{stem}.json")
    written = [*outputs, ledger, *filter(None, [options.page])]
    if len({path.resolve() for path in written}) < len(written):
        raise ConfigError(f"{', '.join(map(str, written))} should be different files")
    for path in written:
        check_written(path, *read, *inputs_of(options))
    check_ledger(ledger, "clean")
    return outputs, ledger


def find_corpora(options: CleanOptions, names: Sequence[str], what: str) -> list[TextFormat]:
    """The texts with these names. Raises: DataError if a file is missing, or two differ in length.

    Args:
        what: the argument or option that names them, for messages.
    """
    corpora = []
    for given in names:
        is_list = given[:1] + given[-1:] == "[]"
        spec = [*map(str.strip, given[1:-1].split(","))] if is_list else given
        corpora.append(find_format(spec, *options.columns, what))
        if len(files := corpora[-1].files) == 2:
            check_parallel(files[0], files[1], "cleaning")
    return corpora


def pairs_of(corpora: Sequence[TextFormat]) -> Iterator[Pair]:
    return chain.from_iterable(text.pairs() for text in corpora)


def find_languages(options: CleanOptions) -> Pair:
    """The languages of source and target. Warns if the columns are not named after languages.

    Raises: ConfigError if --languages does not name two languages that exist.
    """
    source, target = options.columns
    if options.languages is not None:
        source, *others = options.languages.split("," if "," in options.languages else "-")
        target = others[0] if len(others) == 1 else ""
        if not (source and target):
            raise ConfigError(f"--languages {options.languages} should be two: de-en, or pt-BR,en")
    unknown = [each for each in (source, target) if not read_language(each).is_known]
    problem = f"no language has the code {' or '.join(map(repr, unknown))}"
    if unknown and options.languages:
        raise ConfigError(f"--languages: {problem}, {LANGUAGE_CODES}")
    if unknown:
        effect = "words are what is between spaces, and letters may be of any script"
        warnings.warn(f"{problem}: {effect}. Add --languages de-en", stacklevel=1)
    return source, target


def judge_corpora(
    options: CleanOptions, corpora: list[TextFormat], languages: Pair, held_out: Sequence[Pair]
) -> verdicts.Verdicts:
    """The verdicts on all pairs. Raises: ConfigError if the languages cannot be detected; DataError
    for a faulty file.
    """
    rules = options.rules
    limits = {name: limit for name in RULES if (limit := getattr(rules, name)) != "off"}
    if "language" in limits:
        limits["language"] = identifier(languages)
    best = 1.0 if rules.best == "off" else float(rules.best)
    scores = verdicts.read_scores(options.scores) if options.scores else None
    tally = Tally("cleaning", "pairs")
    with show_tally(tally, sys.stderr):
        pairs = tally.count(pairs_of(corpora))
        return verdicts.judge(pairs, languages, limits, rules.duplicates, scores, best, held_out)


def identifier(languages: Pair) -> Callable[[str, str], str]:
    """The argument `identify` of `is_foreign`, a function (text, language) -> language.

    Raises: ConfigError if py3langid is missing, or does not know one of these languages.
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
