"""Report on a run as one HTML page: learning curves, scores with intervals, quality by length,
worst and best sentences, alignments, and its data.

The test set is --source and --reference, or else that of the run (`data.test`), or else its
validation set. If the input of a section is missing, the section says so.
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from seq2seq.base.errors import ConfigError, DataError, Seq2SeqError, format_count, printable
from seq2seq.cli.evaluate.testset import is_table
from seq2seq.cli.files import InputPath, check_written, folder_of, inputs_of
from seq2seq.cli.models import ModelOptions
from seq2seq.cli.options import value
from seq2seq.data.corpus.mixture import find_components
from seq2seq.data.text.lines import check_parallel, read_lines

if TYPE_CHECKING:
    from seq2seq.checkpoint import Saved
    from seq2seq.pages.report import Tested
    from seq2seq.translation.translator import Translator

T = TypeVar("T")

HELP = "report on a run as one HTML page"
SENTENCES = 500  # enough for intervals; a small model translates them in a minute
SAMPLES = 12  # number of pairs whose alignment is shown


class ReportOptions(ModelOptions):
    """The options of `seq2seq report`."""

    output: Path | None = value("the page (report.html in the folder of the run)", "HTML", "-o")
    source: InputPath | None = value("sentences to translate, instead of the run's", "FILE")
    reference: InputPath | None = value("their translations", "FILE")
    sentences: int = value("translate the first N (%(default)s)", "N", "-n", default=SENTENCES)


class TestText(NamedTuple):
    """The first pairs of a test set with `total` pairs, with their tag or languages, if any. In
    `starts` is the index of the first pair of each corpus after the first.
    """

    name: str
    pairs: list[tuple[str, str]]
    total: int
    tag: str | None
    languages: Any
    starts: Sequence[int] = ()


def run(options: ReportOptions) -> None:
    if (options.source is None) != (options.reference is None):
        raise ConfigError("--source FILE and --reference FILE belong together: give both, or none")
    folder = folder_of(options.path)
    output = options.output or folder / "report.html"
    check_written(output, *inputs_of(options))
    if options.source and options.reference:
        check_parallel(options.source, options.reference, "scoring")
        if is_table(options.reference):
            raise ConfigError(
                f"{options.reference}: a report takes one reference per sentence: cut -f1"
            )
    from seq2seq import checkpoint  # only here: torch takes a second
    from seq2seq.pages.charts import read_rows
    from seq2seq.pages.report import ledger_table, write_report
    from seq2seq.translation.translator import Translator

    saved = checkpoint.read(options.path)
    check_written(output, *list_corpus_files(saved.config))
    test = attempt(find_test, options, saved.config["data"])
    tag, languages = options.tag, options.languages
    if not isinstance(test, Seq2SeqError):
        tag, languages = tag or test.tag, test.languages
    translator = Translator(saved, options.device, tag, languages=languages)
    tested: Tested | Seq2SeqError
    alignments: dict[str, Any] | Seq2SeqError
    if isinstance(test, Seq2SeqError):
        tested = alignments = test
        found = f"without scores, since {test}"
    else:
        tested = score_test_set(translator, test)
        alignments = attempt(align_samples, translator, tested, options.path)
        total = format_count(test.total, "sentence")
        found = f"on the first {len(tested.judged):,} of {total} of {test.name}"
    ledger = read_run_file(folder / "data.json", lambda p: ledger_table(json.loads(p.read_bytes())))
    write_report(
        output,
        title=folder.resolve().name,
        figures=key_figures(folder, saved, translator),
        metrics=read_run_file(folder / "metrics.csv", lambda path: read_rows(path.parent)),
        tested=tested,
        alignments=alignments,
        ledger=ledger,
    )
    print(printable(f"{output}: {found}"))


def attempt(find: Callable[..., T], *values: Any) -> T | Seq2SeqError:
    """The result of `find`, or the error that says why a section is missing."""
    try:
        return find(*values)
    except Seq2SeqError as error:
        return error


def list_corpus_files(config: Mapping[str, Any]) -> list[Path]:
    """The training, validation and test files of a run that still exist."""
    data = config["data"]
    files: list[Path] = []
    for part in filter(data.get, ("train", "valid", "test")):
        with suppress(Seq2SeqError):
            for component in find_components(data, part):
                files += component.text.files
    return files


def find_test(options: ReportOptions, data: Mapping[str, Any]) -> TestText:
    """The pairs to translate: the files given, or else the run's test set or validation set."""
    if options.source and options.reference:
        pairs = list(zip(read_lines(options.source), read_lines(options.reference), strict=True))
        name = str(options.source)
        return TestText(
            name, pairs[: options.sentences], len(pairs), options.tag, options.languages
        )
    part = "test" if data.get("test") else "valid"
    if not data.get(part):
        raise DataError("the run names no test set: --source FILE --reference FILE")
    try:
        # Only the corpora with the first tag, or in the direction that the options ask for.
        components = find_components(data, part)
        asked = [each for each in components if each.languages == options.languages]
        first = (asked or components)[0]
        key = first.tag, first.languages
        chosen = [each for each in components if (each.tag, each.languages) == key]
        corpora = [[*component.text.pairs()] for component in chosen]
        pairs, starts = [*chain.from_iterable(corpora)], [*accumulate(map(len, corpora))]
    except DataError as error:
        raise DataError(f"{error} Or give other files: --source FILE --reference FILE") from error
    name = ", ".join(str(component.text.files[0]) for component in chosen)
    kind = "" if part == "test" else ", on which the checkpoint was chosen"
    tag, languages = (None, key[1]) if key[1] else (key[0], options.languages)
    first_pairs, total = pairs[: options.sentences], len(pairs)
    return TestText(f"{name}{kind}", first_pairs, total, tag, languages, starts)


def score_test_set(translator: "Translator", test: TestText) -> "Tested":
    """Translate the test set, and score all of it, each length and each sentence."""
    from seq2seq.metrics.assessment import Assessor
    from seq2seq.metrics.registry import find_metrics
    from seq2seq.metrics.scores import usual_resamples
    from seq2seq.metrics.sentence_quality import SentenceQuality, sentence_quality
    from seq2seq.metrics.text_checks import cautions, usual_metrics
    from seq2seq.pages.report import Tested
    from seq2seq.translation.documents import request_lines

    sources, references = (list(side) for side in zip(*test.pairs, strict=True))
    requests = request_lines(sources, translator.context, test.starts)
    results = translator.stream(requests, translator.engine())
    translations = [result.translations for result in results]
    hypotheses = [nbest[0].text if nbest else "" for nbest in translations]
    confidences = [nbest[0].confidence if nbest else None for nbest in translations]
    languages = translator.directions.find()[:2]
    kinds = find_metrics(usual_metrics(references))
    assessor = Assessor(sources, [references], kinds, languages, usual_resamples(len(sources)))
    qualities = sentence_quality(hypotheses, references)
    line_nos = range(1, len(sources) + 1)
    columns = line_nos, sources, hypotheses, references, confidences, qualities
    known = cautions(references, {"the model": hypotheses}, languages[1])
    if cut_off := sum(nbest[0].truncated for nbest in translations if nbest):
        known.append(f"{cut_off:,} of the translations were cut off at the length limit")
    judged = [SentenceQuality(*row) for row in zip(*columns, strict=True)]
    return Tested(test.name, test.total, judged, assessor.assess(hypotheses), known)


def align_samples(translator: "Translator", tested: "Tested", path: Path) -> dict[str, Any]:
    """Alignments of some sentences, spread over the test set, with the model's translations, by the
    choice that `align --choose` saved beside the checkpoint.
    """
    from seq2seq.cli.align.choice import select_choice
    from seq2seq.cli.align.options import ChoiceOptions
    from seq2seq.pages.page import alignment_data

    whole = [j for j in tested.judged if j.source.strip() and j.hypothesis.strip()]
    step = max(1, len(whole) // SAMPLES)
    pairs = [(j.source, j.hypothesis) for j in islice(whole, 0, None, step)][:SAMPLES]
    alignments = [each for each in translator.alignments(pairs) if each is not None]
    if not alignments:
        raise DataError("no sentence could be aligned with its translation")
    reading = select_choice(ChoiceOptions(), path, translator)
    return alignment_data(alignments, reading.choice)


def key_figures(folder: Path, saved: "Saved", translator: "Translator") -> list[tuple[str, str]]:
    """Name and value of each figure at the top of the page."""
    config = saved.config
    count = sum(p.numel() for p in translator.model.parameters())
    figures = [
        ("model", str(config["model"]["name"])),
        ("cross-attention", str(config["attention"]["cross"]["name"])),
        ("parameters", f"{count / 1e6:.2f} M"),
    ]
    with suppress(OSError, ValueError, AttributeError):  # the file is missing, or was changed
        result = json.loads((folder / "result.json").read_bytes())
        steps, value = result.get("steps"), result.get("value")
        if isinstance(steps, int):
            figures.append(("updates", f"{steps:,}"))
        if isinstance(value, float):
            figures.append((f"validation {result.get('monitor')}", f"{value:.4g}"))
    return figures


def read_run_file(path: Path, read: Callable[[Path], T]) -> T | Seq2SeqError:
    """The content of a file of a run, or an error if the file is missing or was changed."""
    try:
        return read(path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, csv.Error) as error:
        return DataError(f"{path} cannot be read ({error})")
