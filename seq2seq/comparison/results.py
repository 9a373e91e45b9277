"""Translate the test set with all runs, score it, and test the differences to the first row."""

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seq2seq.alignment import links
from seq2seq.alignment.choice import best_known_choice, checksum
from seq2seq.alignment.links import LinkCounts, Links
from seq2seq.base.durable import write_text
from seq2seq.base.errors import ConfigError, DataError
from seq2seq.checkpoint.folder import BEST
from seq2seq.comparison import significance
from seq2seq.comparison.rows import Mean, MetricResult
from seq2seq.comparison.runs import Group, TrainedRun
from seq2seq.comparison.significance import Array, compare_means, resample
from seq2seq.comparison.splits import Files, Pair, read_file_pairs
from seq2seq.data.corpus.mixture import find_components
from seq2seq.metrics.assessment import length_unit
from seq2seq.metrics.registry import build_metrics, find_metrics
from seq2seq.text.languages import is_spaceless
from seq2seq.translation.translator import Translator

PARTS = 3  # ranges of source lengths, with about the same number of sentences
Score = Callable[[Array], float]


class TestPairs(NamedTuple):
    """The pairs of a test set, and reference links if there are any."""

    place: str  # name of the file
    pairs: Sequence[Pair]
    gold: Sequence[Links] = ()


def read_test(files: Files | None, gold: Path | None, data: Mapping[str, Any]) -> TestPairs:
    """The test set in files; if there are none, that of runs, or their validation set.

    Raises: DataError if files cannot be read, or have different numbers of lines.
    """
    if files:
        place, pairs = str(files[0]), read_file_pairs(files)
    else:
        part = "test" if data.get("test") else "valid"
        try:
            text = find_components(data, part)[0].text
            place, pairs = str(text.files[0]), list(text.pairs())
        except DataError as error:  # the files have moved since
            raise DataError(f"{error} Or give a test set: --test SOURCE TARGET") from error
    if gold is None:
        return TestPairs(place, pairs)
    found = links.read_alignment(gold)
    links.check_line_count(gold, len(found), len(pairs), place)
    sizes = [(len(links.words(source)), len(links.words(target))) for source, target in pairs]
    links.check_all_links(gold, found, sizes, place)
    return TestPairs(place, pairs, found)


def usual_names(run: TrainedRun) -> list[str]:
    """The metrics of a task, by the metric that chose its checkpoints."""
    symbols = ["exact", "ser"]
    names = symbols if run.monitor in symbols else ["bleu", "chrf"]
    return sorted(names, key=lambda name: name != run.monitor)


def translate_once(run: TrainedRun, sources: Sequence[str], cache: Path) -> list[str]:
    """The translations of a run's best weights with its configured search.

    They are kept in a folder, and used again if the weights and the sources are the same.
    """
    texts = "\n".join([checksum(run.folder / BEST), *sources])
    key = hashlib.sha256(texts.encode()).hexdigest()[:16]
    path = cache / f"{run.folder.name}-{key}.txt"
    if path.is_file():
        return path.read_text(encoding="utf-8").split("\n")[:-1]
    print(f"translating with {run.folder.name}", file=sys.stderr, flush=True)
    translations = Translator.load(run.folder / BEST, "cpu").translate(list(sources))
    cache.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{line}\n" for line in translations))
    return translations


def count_links(run: TrainedRun, test: TestPairs) -> Array | None:
    """The counts of links (sentences, 4) of a run's attention; None if it has no weights."""
    path = run.folder / BEST
    translator = Translator.load(path, "cpu")
    try:
        alignments = list(translator.alignments(test.pairs))
    except ConfigError:
        return None
    choice = best_known_choice(path, run.saved.config, translator.shape[0])
    found = [each.links(choice) if each else set() for each in alignments]
    pairs = zip(found, test.gold, strict=True)
    return np.array([LinkCounts.of(each, *gold) for each, gold in pairs], float)


def error_rate(counts: Array) -> float:
    return LinkCounts(*map(int, counts)).aer


def judge_groups(
    groups: Sequence[Group], test: TestPairs, names: Sequence[str] | None, cache: Path
) -> list[dict[str, MetricResult]]:
    """The results of each mechanism on the test set, by the label of the metric.

    Args:
        groups: the mechanisms, the one that others are compared with first.
        names: metrics; None = those of the task.
        cache: folder of translations.
    """
    sources, references = map(list, zip(*test.pairs, strict=True))
    config = groups[0].runs[0].saved.config["data"]
    kinds = find_metrics(names or usual_names(groups[0].runs[0]))
    metrics = build_metrics(kinds, [references], config["target"])
    lines = [[translate_once(run, sources, cache) for run in group.runs] for group in groups]
    parts = divide_by_length(sources, config["source"])
    results: list[dict[str, MetricResult]] = [{} for _ in groups]
    for label, metric in metrics.items():
        counts: list[Array | None] = [
            np.array([metric._extract_corpus_statistics(t, None) for t in runs], float)
            for runs in lines
        ]
        add_results(results, label, counts, score_function(metric), parts)
    if test.gold:
        found = [[count_links(run, test) for run in group.runs] for group in groups]
        counts = [None if any(c is None for c in runs) else np.array(runs) for runs in found]
        add_results(results, "AER", counts, error_rate, parts)
    return results


def score_function(metric: Any) -> Score:
    """The function from summed counts to a score of a sacreBLEU metric."""

    def score(counts: Array) -> float:
        # BLEU prints its counts as whole numbers.
        plain = [int(count) if count == int(count) else float(count) for count in counts]
        return float(metric._compute_score_from_stats(plain).score)

    return score


def add_results(
    results: Sequence[dict[str, MetricResult]],
    label: str,
    counts: Sequence[Array | None],
    score: Score,
    parts: Mapping[str, Any],
) -> None:
    """Add the result by one metric for each mechanism that has counts (runs, sentences, ...)."""
    first: significance.Resampled | None = None
    for n, (row, each) in enumerate(zip(results, counts, strict=True)):
        if each is None:
            continue
        drawn, half = resample(each, score), None
        lengths = {
            name: float(np.mean([score(counts) for counts in each[:, part].sum(1)]))
            for name, part in parts.items()
        }
        if len(each) == 1 and drawn.sentences > 1:
            low, high = np.quantile(drawn.draws, (0.025, 0.975))
            half = float(high - low) / 2
        first = drawn if n == 0 else first
        difference = compare_means(drawn, first) if first and n else None
        row[label] = MetricResult(Mean.of(drawn.values.tolist()), half, difference, lengths)
    found = [(row, row[label].difference) for row in results if label in row]
    tested = [(row, difference) for row, difference in found if difference]
    corrected = significance.correct_by_holm([difference.p_value for _, difference in tested])
    for (row, difference), p_value in zip(tested, corrected, strict=True):
        row[label] = row[label]._replace(difference=difference._replace(p_value=p_value))


def divide_by_length(sources: Sequence[str], language: str | None) -> dict[str, Any]:
    """The rows of short, medium and long sources, by ranges such as `3-8 words`."""
    spaceless = is_spaceless(language)
    lengths = np.array([len("".join(s.split()) if spaceless else s.split()) for s in sources])
    parts = np.array_split(np.argsort(lengths, kind="stable"), PARTS)
    ranges = [f"{min(lengths[p])}-{max(lengths[p])}" for p in parts if len(p)]
    return {f"{r} {length_unit(language)}": p for r, p in zip(ranges, parts, strict=False)}
