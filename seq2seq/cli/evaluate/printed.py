"""Print the findings of `seq2seq evaluate`, as lines or as JSON."""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.base.errors import format_count
from seq2seq.cli.evaluate.systems import System
from seq2seq.cli.evaluate.testset import TestSet

if TYPE_CHECKING:
    from seq2seq.metrics.assessment import Assessment
    from seq2seq.metrics.scores import Comparison, CorpusScore


UNDEFINED = "not defined for one sentence"


class Findings(NamedTuple):
    """Scores and comparisons of the systems on a test set."""

    test_set: TestSet
    languages: tuple[str | None, str | None]  # source and target
    systems: list[tuple[System, "Assessment"]]
    resamples: int
    paired: tuple[str, dict[str, "Comparison"]] | None  # name of the test, and its results by score


def findings_lines(findings: Findings, *, lengths: bool) -> Iterator[str]:
    """The findings as lines: the scores come first, for programs that read only these.

    Args:
        lengths: True to show scores by length as well.
    """
    if len(findings.systems) == 1:
        yield from single_lines(findings)
    else:
        yield from score_table(findings)
    for system, _ in findings.systems:
        if system.leaks:
            yield f"{system.name}: {system.leaks.describe(len(system.lines), 'test')}"
    for system, assessment in findings.systems if lengths else ():
        name = "" if len(findings.systems) == 1 else f"{system.name}: "
        yield f"{name}{assessment.scores[0].name} by {assessment.length_unit} of the source"
        for bucket in assessment.lengths:
            counted = format_count(bucket.sentences, "sentence")
            yield f"{bucket.range:>8} {bucket.score:6.1f}  {counted}"


def single_lines(findings: Findings) -> Iterator[str]:
    ((_, assessment),) = findings.systems
    yield from (f"{score.name} {score.value:.1f}" for score in assessment.scores)
    yield from (score.signature for score in assessment.scores)
    drawn = [(score.name, score.interval) for score in assessment.scores if score.interval]
    intervals = [f"{name} {each.mean:.1f} ± {each.half_width:.1f}" for name, each in drawn]
    if findings.resamples:
        yield f"95% of {findings.resamples:,} resamples: {', '.join(intervals) or UNDEFINED}"


def score_table(findings: Findings) -> Iterator[str]:
    """A table with a row per system and a column per score, then the signatures."""
    baseline, scores = findings.systems[0][0], findings.systems[0][1].scores
    rows = [["", *(score.name for score in scores)]]
    for index, (system, assessment) in enumerate(findings.systems):
        cells = [score_cell(score, findings, index) for score in assessment.scores]
        rows.append([system.name, *cells])
    yield from pad_columns(rows)
    for score in {(s.name, s.signature): s for _, a in findings.systems for s in a.scores}.values():
        known = findings.paired[1][score.name] if findings.paired else score
        yield f"{score.name} {known.signature}"
    if findings.paired:
        test, comparisons = findings.paired
        yield (
            f"p: against {baseline.name}, paired {test}, "
            f"{next(iter(comparisons.values())).trials:,} trials; the probability of so large "
            "a difference between equally good systems"
        )
    if findings.resamples:
        within = "lie within this distance of their mean"
        one = len(findings.test_set.source) == 1
        yield f"±: 95% of {findings.resamples:,} resamples {UNDEFINED if one else within}"


def score_cell(score: "CorpusScore", findings: Findings, index: int) -> str:
    text = f"{score.value:.1f}"
    if score.interval:
        text += f" ± {score.interval.half_width:.1f}"
    if findings.paired and index:
        baseline, *others = findings.paired[1][score.name].systems
        other = others[index - 1]
        # For equal scores sacreBLEU's tests give the smallest possible p, which would mislead.
        equal = other.value == baseline.value
        p_value = "not defined" if other.p_value is None else f"{other.p_value:.4f}"
        text += " (no difference)" if equal else f" (p {p_value})"
    return text


def pad_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def findings_entry(findings: Findings) -> dict[str, Any]:
    """The findings for JSON: see docs/evaluation.md. Several systems are in a list."""
    source, target = findings.languages
    test = {
        "test_set": str(findings.test_set.source_path),
        "sentences": len(findings.test_set.source),
        "references": len(findings.test_set.references),
        "source_language": source,
        "target_language": target,
    }
    systems = [system_entry(*each) for each in findings.systems]
    if len(systems) == 1:
        return {**systems[0], **test}
    paired = findings.paired and comparison_entry(*findings.paired, systems)
    return {"systems": systems, **test, "paired": paired}


def system_entry(system: System, assessment: "Assessment") -> dict[str, Any]:
    scores = {
        score.name: {
            "score": score.value,
            "signature": score.signature,
            "interval": score.interval and score.interval._asdict(),
        }
        for score in assessment.scores
    }
    return {
        **scores,
        "path": system.name,
        "kind": "model" if system.config else "translations",
        "sha256": hashlib.sha256(system.content).hexdigest(),
        "truncated": system.truncated,
        "leaks": system.leaks and system.leaks._asdict(),
        "lengths": {
            "score": assessment.scores[0].name,
            "unit": assessment.length_unit,
            "buckets": [bucket._asdict() for bucket in assessment.lengths],
        },
    }


def comparison_entry(
    test: str, comparisons: "dict[str, Comparison]", systems: list[dict[str, Any]]
) -> dict[str, Any]:
    scores = {}
    for label, (signature, trials, compared) in comparisons.items():
        rows = [
            {
                "path": system["path"],
                "score": each.value,
                "p_value": each.p_value,
                "interval": each.interval and each.interval._asdict(),
            }
            for system, each in zip(systems, compared, strict=True)
        ]
        scores[label] = {"signature": signature, "trials": trials, "systems": rows}
    return {"test": test, "baseline": systems[0]["path"], "scores": scores}
