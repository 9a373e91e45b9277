"""One HTML page that tells what a run did: learning curves, scores with their intervals, quality by
length, how far confidence can be trusted, worst and best sentences, alignments, and its data.

The test set is what --source and --reference name, else that of the run (`data.test`), else its
validation set. A part whose input is missing says so, and the others are there.
"""

import argparse
import csv
import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.cli.align import choice
from seq2seq.cli.evaluate.testset import is_table
from seq2seq.cli.files import check_written, folder_of
from seq2seq.cli.options import add_model, positive
from seq2seq.data.text import check_parallel, read_lines
from seq2seq.errors import ConfigError, DataError, Seq2SeqError, shown

if TYPE_CHECKING:
    from seq2seq.checkpoint import Saved
    from seq2seq.pages.report import Missing, Samples, Tested
    from seq2seq.translator import Translator

HELP = "what a run did, as one HTML page"
SENTENCES = 500  # enough for intervals, and translated in a minute by a small model
SAMPLES = 12  # pairs whose alignment can be looked at


class TestText(NamedTuple):
    """Sentences and references, the first of so many; the tag that the model is to be asked for."""

    name: str
    pairs: list[tuple[str, str]]
    total: int
    tag: str | None


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    add = command.add_argument
    add("-o", "--output", type=Path, help="the page (report.html in the folder of the run)")
    add("--source", type=Path, metavar="FILE", help="sentences to translate, instead of the run's")
    add("--reference", type=Path, metavar="FILE", help="their translations")
    add(
        *("--sentences", "-n"),
        type=positive,
        default=SENTENCES,
        metavar="N",
        help="translate the first N of them (%(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    if (arguments.source is None) != (arguments.reference is None):
        raise ConfigError("--source FILE and --reference FILE belong together: give both, or none")
    path = Path(arguments.path)
    folder = folder_of(path)
    arguments.output = arguments.output or folder / "report.html"
    check_written(arguments.output, path, arguments.source, arguments.reference)
    if arguments.source:
        check_parallel(arguments.source, arguments.reference)
        if is_table(arguments.reference):
            raise ConfigError(
                f"--reference {arguments.reference}: a report takes one reference a sentence; of "
                "a table with several give one: cut -f1"
            )
    from seq2seq import checkpoint  # only here: torch takes a second
    from seq2seq.pages.report import Missing, Report, write_report
    from seq2seq.translator import Translator

    saved = checkpoint.read(arguments.path)
    check_written(arguments.output, *files_of(saved.config))
    found = find_test(arguments, saved.config["data"])
    tag = None if isinstance(found, Missing) else found.tag
    translator = Translator(saved, arguments.device, arguments.tag or tag)
    tested = found if isinstance(found, Missing) else judge(translator, found)
    report = Report(
        folder.resolve().name,
        facts(folder, saved, translator),
        read_metrics(folder),
        tested,
        samples(translator, tested, checkpoint.find(path)),
        read_ledger(folder / "data.json"),
    )
    write_report(arguments.output, report)
    if isinstance(tested, Missing):
        print(shown(f"{arguments.output}: without scores, since {tested.reason}"))
    else:
        judged = f"the first {len(tested.judged):,} of {tested.total:,} sentences of {tested.name}"
        print(shown(f"{arguments.output}: on {judged}"))
    return 0


def files_of(config: Mapping[str, Any]) -> list[Path]:
    """The files that a run was trained and judged on, as far as they are there."""
    from seq2seq.data.mixture import find_components

    data = config["data"]
    found: list[Path] = []
    sides = str(data["source"]), str(data["target"])
    for part in filter(data.get, ("train", "valid", "test")):
        with suppress(Seq2SeqError):
            for component in find_components(data[part], *sides, f"data.{part}"):
                found += component.text.files
    return found


def find_test(arguments: argparse.Namespace, data: Mapping[str, Any]) -> "TestText | Missing":
    """What to translate: the given files, else those of the run's configuration."""
    from seq2seq.data.mixture import find_components
    from seq2seq.pages.report import Missing

    if arguments.source:
        files = arguments.source, arguments.reference
        pairs = list(zip(*map(read_lines, files), strict=True))
        name = str(arguments.source)
        return TestText(name, pairs[: arguments.sentences], len(pairs), arguments.tag)
    part = "test" if data.get("test") else "valid"
    if not data.get(part):
        return Missing("the run names no test set: --source FILE --reference FILE")
    try:
        # Of corpora with different tags the first: a model is asked for one of them.
        components = find_components(
            data[part], str(data["source"]), str(data["target"]), f"data.{part}"
        )
        chosen = [component for component in components if component.tag == components[0].tag]
        pairs = [pair for component in chosen for pair in component.text.pairs()]
    except DataError as error:
        return Missing(f"{error} Or give other files: --source FILE --reference FILE")
    name = ", ".join(str(component.text.files[0]) for component in chosen)
    kind = "" if part == "test" else ", on which the checkpoint was chosen"
    return TestText(f"{name}{kind}", pairs[: arguments.sentences], len(pairs), components[0].tag)


def judge(translator: "Translator", test: TestText) -> "Tested":
    """Translate, and score by corpus, length and sentence."""
    from seq2seq.metrics.assessment import Assessor
    from seq2seq.metrics.buckets import by_length
    from seq2seq.metrics.registry import find_metrics
    from seq2seq.metrics.scores import usual_resamples
    from seq2seq.metrics.sentence_quality import SentenceQuality, length_ratio, sentence_quality
    from seq2seq.metrics.text_checks import cautions, usual_metrics
    from seq2seq.pages.report import Tested

    sources, references = (list(side) for side in zip(*test.pairs, strict=True))
    found = list(translator.stream(sources, translator.engine()))
    hypotheses = [best[0].text if best else "" for best in found]
    confidences = [best[0].confidence if best else None for best in found]
    languages = translator.config["data"]["source"], translator.config["data"]["target"]
    kinds = find_metrics(usual_metrics(references))
    assessor = Assessor(sources, [references], kinds, languages, usual_resamples(len(sources)))
    columns = (
        *(range(1, len(sources) + 1), sources, hypotheses, references, confidences),
        sentence_quality(hypotheses, references),
    )
    known = cautions(references, {"the model": hypotheses}, languages[1])
    if cut_off := sum(best[0].truncated for best in found if best):
        known.append(f"{cut_off:,} of the translations were cut off at the length limit")
    return Tested(
        test.name,
        test.total,
        [SentenceQuality(*row) for row in zip(*columns, strict=True)],
        assessor.assess(hypotheses),
        by_length(sources, hypotheses, [references], length_ratio, languages[0]),
        known,
    )


def samples(
    translator: "Translator", tested: "Tested | Missing", path: Path
) -> "Samples | Missing":
    """Alignments of sentences with the model's translations, taken from all over the test set.

    Args:
        path: of the checkpoint, beside which it may stand how its alignments are best read.
    """
    from seq2seq.pages.report import Missing, Samples

    if isinstance(tested, Missing):
        return tested
    whole = [j for j in tested.judged if j.source.strip() and j.hypothesis.strip()]
    step = max(1, len(whole) // SAMPLES)
    pairs = [(j.source, j.hypothesis) for j in islice(whole, 0, None, step)][:SAMPLES]
    try:
        found = [each for each in translator.alignments(pairs) if each is not None]
    except ConfigError as error:
        return Missing(str(error))
    if not found:
        return Missing("no sentence could be aligned with its translation")
    reading = choice.read(choice.nothing_given(), path, translator.config, found)
    return Samples(found, reading.choice)


def facts(folder: Path, saved: "Saved", translator: "Translator") -> list[tuple[str, str]]:
    """What stands at the top of the page."""
    from seq2seq.pages.report import Missing

    config = saved.config
    count = sum(p.numel() for p in translator.model.parameters())
    found = [
        ("model", str(config["model"]["name"])),
        ("cross-attention", str(config["attention"]["cross"]["name"])),
        ("parameters", f"{count / 1e6:.2f} M"),
    ]
    result = read_json(folder / "result.json")
    if not isinstance(result, Missing):
        steps, value = result.get("steps"), result.get("value")
        if isinstance(steps, int):
            found.append(("updates", f"{steps:,}"))
        if isinstance(value, float):
            found.append((f"validation {result.get('monitor')}", f"{value:.4g}"))
    return found


def read_metrics(folder: Path) -> "list[dict[str, str]] | Missing":
    from seq2seq.pages.charts import read_rows
    from seq2seq.pages.report import Missing

    try:
        return read_rows(folder)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        return Missing(f"{folder / 'metrics.csv'} cannot be read ({error})")


def read_json(path: Path) -> "dict[str, Any] | Missing":
    from seq2seq.pages.report import Missing

    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return Missing(f"{path} cannot be read ({error})")
    return found if isinstance(found, dict) else Missing(f"{path} does not hold what a run writes")


def read_ledger(path: Path) -> "dict[str, Any] | Missing":
    from seq2seq.pages.report import Missing, ledger_table

    found = read_json(path)
    if isinstance(found, Missing):
        return found
    try:
        ledger_table(found)
    # It was written by another version, or by hand.
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Missing(f"{path} does not hold what a run writes ({error!r})")
    return found
