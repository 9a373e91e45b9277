"""Translate the test set with all runs, score it, and test the differences to the first row."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.alignment import choice as choices
from seq2seq.alignment import links as files_of_links
from seq2seq.alignment.links import LinkCounts, Links, words
from seq2seq.base.durable import write_text
from seq2seq.base.errors import ConfigError
from seq2seq.checkpoint.folder import BEST
from seq2seq.comparison import significance
from seq2seq.comparison.rows import Mean, MetricResult
from seq2seq.comparison.runs import Group, TrainedRun
from seq2seq.comparison.significance import Array, compare_means, resample
from seq2seq.comparison.splits import Files, Pair, read_file_pairs
from seq2seq.metrics.assessment import length_unit
from seq2seq.metrics.registry import build_metrics, find_metrics
from seq2seq.text.languages import is_spaceless
from seq2seq.translation.translator import Translator

PARTS = 3  # ranges of source lengths, with about the same number of sentences
Score = Callable[[Array], float]
Rows = NDArray[np.intp]  # numbers of sentences


class TestPairs(NamedTuple):
    """The pairs of a test set, and reference links if there are any."""

    files: Files
    pairs: Sequence[Pair]
    gold: Sequence[Links] = ()

    @classmethod
    def read(cls, files: Files, gold: Path | None) -> "TestPairs":
        """Read a test set. Raises: DataError if its files do not have the same number of lines."""
        pairs, of = read_file_pairs(files), f"{files[0]} and {files[1]}"
        if gold is None:
            return cls(files, pairs)
        links = files_of_links.read_alignment(gold)
        files_of_links.check_line_count(gold, len(links), len(pairs), of)
        files_of_links.check_all_links(
            gold, links, [(len(words(s)), len(words(t))) for s, t in pairs], of
        )
        return cls(files, pairs, links)


def usual_names(run: TrainedRun) -> list[str]:
    """The metrics of a task, by the metric that chose its checkpoints."""
    symbols = ["exact", "ser"]
    names = symbols if run.monitor in symbols else ["bleu", "chrf"]
    return sorted(names, key=lambda name: name != run.monitor)


def translate_once(run: TrainedRun, sources: Sequence[str], cache: Path) -> list[str]:
    """The translations of a run's best weights with its configured search, kept in a folder.

    A translation is used again if the checkpoint and the sources are the same.
    """
    key = [
        choices.checksum(run.folder / BEST),
        hashlib.sha256("\n".join(sources).encode()).hexdigest(),
    ]
    path = cache / f"{hashlib.sha256(str(run.folder.resolve()).encode()).hexdigest()[:16]}.json"
    if path.is_file():
        known: Any = json.loads(path.read_text(encoding="utf-8"))
        if known["key"] == key:
            return list(known["translations"])
    print(f"translating with {run.folder.name}", file=sys.stderr, flush=True)
    translations = Translator.load(run.folder / BEST, "cpu").translate(list(sources))
    cache.mkdir(parents=True, exist_ok=True)
    entry = {"run": str(run.folder), "key": key, "translations": translations}
    write_text(path, json.dumps(entry, ensure_ascii=False, indent=1) + "\n")
    return translations


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def count_links(run: TrainedRun, test: TestPairs) -> Array | None:
    """The counts of links (sentences, 4) of a run's attention; None if it has no weights."""
    translator = Translator.load(run.folder / BEST, "cpu")
    try:
        alignments = list(translator.alignments(test.pairs))
    except ConfigError:
        return None
    found = [each for each in alignments if each is not None]
    choice = choices.load_choice(run.folder / BEST) or choices.choice_of_guided_head(
        translator.config
    )
    choice = choice or choices.guess_choice(found) if found else None
    return np.array(
        [
            LinkCounts.of(each.links(choice) if each and choice else set(), *gold)
            for each, gold in zip(alignments, test.gold, strict=True)
        ],
        float,
    )


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
        counts = [
            np.array([metric._extract_corpus_statistics(t, None) for t in runs], float)
            for runs in lines
        ]
        add_results(results, label, counts, score_function(metric), parts)
    if test.gold:
        links = [[count_links(run, test) for run in group.runs] for group in groups]
        counts_of_links = [
            None if any(each is None for each in runs) else np.array(runs, float) for runs in links
        ]
        add_results(results, "AER", counts_of_links, error_rate, parts)
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
    parts: Mapping[str, Rows],
) -> None:
    """Add the result by one metric for each mechanism that has counts (runs, sentences, ...)."""
    first: significance.Resampled | None = None
    compared: list[dict[str, MetricResult]] = []
    for n, (row, each) in enumerate(zip(results, counts, strict=True)):
        if each is None:
            continue
        drawn = resample(each, score)
        lengths = {
            name: float(np.mean([score(counts) for counts in each[:, part].sum(1)]))
            for name, part in parts.items()
        }
        half = None
        if len(each) == 1 and drawn.sentences > 1:
            low, high = np.quantile(drawn.draws, (0.025, 0.975))
            half = float(high - low) / 2
        first = drawn if n == 0 else first
        difference = compare_means(drawn, first) if first and n else None
        row[label] = MetricResult(Mean.of(drawn.values.tolist()), half, difference, 1.0, lengths)
        compared += [row] if difference else []
    p_values = [row[label].difference.p_value for row in compared]  # type: ignore[union-attr]
    for row, p_value in zip(compared, significance.correct_by_holm(p_values), strict=True):
        row[label] = row[label]._replace(p_value=p_value)


def divide_by_length(sources: Sequence[str], language: str | None) -> dict[str, Rows]:
    """The rows of short, medium and long sources, by ranges such as `3-8 words`."""
    spaceless = is_spaceless(language)
    lengths = np.array([len("".join(s.split()) if spaceless else s.split()) for s in sources])
    parts = np.array_split(np.argsort(lengths, kind="stable"), PARTS)
    ranges = [f"{min(lengths[p])}-{max(lengths[p])}" for p in parts if len(p)]
    return {f"{r} {length_unit(language)}": p for r, p in zip(ranges, parts, strict=False)}
