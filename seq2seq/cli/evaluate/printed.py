"""What `seq2seq evaluate` found, as lines for people and as JSON for programs."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.cli.evaluate.systems import System
from seq2seq.cli.evaluate.testset import TestSet

if TYPE_CHECKING:
    from seq2seq.metrics.assessment import Assessment
    from seq2seq.metrics.scores import Comparison, CorpusScore, Interval, Scatter


class Comet(NamedTuple):
    """What another program said of each system; None where it failed."""

    command: str
    scores: list[float | None]


class Findings(NamedTuple):
    """All that was found out about the systems on a test set."""

    test_set: TestSet
    languages: tuple[str | None, str | None]  # source and target
    systems: list[tuple[System, "Assessment"]]
    resamples: int
    paired: tuple[str, dict[str, "Comparison"]] | None  # the test, and what it says
    seeds: dict[str, "Scatter"] | None
    comet: Comet | None


def as_lines(found: Findings, *, lengths: bool) -> Iterator[str]:
    """The scores first, so that a reader that takes the first lines gets them.

    Args:
        lengths: are the scores by length to be shown?
    """
    if len(found.systems) == 1:
        yield from _single(found)
    else:
        yield from _table(found)
    for system, assessment in found.systems:
        name = "" if len(found.systems) == 1 else f"{system.name}: "
        if lengths:
            of = assessment.scores[0].name
            yield f"{name}{of} by {assessment.length_unit} of the source"
            for bucket in assessment.lengths:
                counted = f"{bucket.sentences:,} sentences"
                yield f"{_range(bucket.low, bucket.high):>8} {bucket.score:6.1f}  {counted}"
        if assessment.frequencies:
            yield f"{name}recall of words by how often the training text has them"
            for rare in assessment.frequencies:
                yield f"{_range(rare.low, rare.high):>8} {rare.recall:6.1f}  {rare.words:,} words"


def _single(found: Findings) -> Iterator[str]:
    ((_, assessment),) = found.systems
    for score in assessment.scores:
        yield f"{score.name} {score.value:.1f}"
    for score in assessment.scores:
        yield score.signature
    if found.comet:
        yield f"COMET {_digits(found.comet.scores[0])} by {found.comet.command}"
    intervals = [
        f"{score.name} {score.interval.mean:.1f} ± {score.interval.half_width:.1f}"
        for score in assessment.scores
        if score.interval
    ]
    if intervals:
        yield f"95% of {found.resamples:,} resamples: {', '.join(intervals)}"


def _table(found: Findings) -> Iterator[str]:
    """A row a system, a column a score; below, what is true of all."""
    labels = [score.name for score in found.systems[0][1].scores]
    rows = [["", *labels]]
    for number, (system, assessment) in enumerate(found.systems):
        cells = [_cell(score, found, number) for score in assessment.scores]
        rows.append([system.name, *cells])
    if found.seeds:
        scattered = [f"{s.mean:.1f} ± {s.deviation:.2f}" for s in found.seeds.values()]
        rows.append([f"mean of {len(found.systems)}", *scattered])
    if found.comet:
        rows[0].append("COMET")
        for row, value in zip(rows[1:], found.comet.scores, strict=False):
            row.append(_digits(value))
    yield from _aligned(rows)
    for number, label in enumerate(labels):
        signature = found.systems[0][1].scores[number].signature
        yield f"{label} {found.paired[1][label].signature if found.paired else signature}"
    if found.paired:
        test, comparisons = found.paired
        yield (
            f"p: against {found.systems[0][0].name}, paired {test}, "
            f"{next(iter(comparisons.values())).trials:,} trials; how probable so large a "
            "difference is between systems that are equally good"
        )
    if found.seeds:
        yield "mean of runs ± their standard deviation (n - 1)"
    if found.resamples and not found.seeds:
        yield f"±: 95% of {found.resamples:,} resamples lie so far around their mean"


def _digits(comet: float | None) -> str:
    return "unknown" if comet is None else f"{comet:.4f}"


def _cell(score: "CorpusScore", found: Findings, number: int) -> str:
    text = f"{score.value:.1f}"
    if score.interval and not found.seeds:
        text += f" ± {score.interval.half_width:.1f}"
    if found.paired and number:
        baseline, *others = found.paired[1][score.name].systems
        other = others[number - 1]
        # Of equal scores sacreBLEU's tests give the least p there is, which would mislead.
        equal = other.value == baseline.value
        text += " (no difference)" if equal else f" (p {other.p_value:.4f})"
    return text


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    columns = max(map(len, rows))
    padded = [[*row, *[""] * (columns - len(row))] for row in rows]
    widths = [max(map(len, column)) for column in zip(*padded, strict=True)]
    for row in padded:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"{low}+"
    return f"{low}" if low == high else f"{low}-{high}"


def as_json(found: Findings) -> dict[str, Any]:
    """See docs/evaluation.md. A single system stands at the top, several in a list."""
    source, target = found.languages
    test = {
        "test_set": found.test_set.name,
        "sentences": len(found.test_set.source),
        "references": len(found.test_set.references),
        "source_language": source,
        "target_language": target,
    }
    systems = [_system(*each) for each in found.systems]
    for number, system in enumerate(systems):
        comet = found.comet
        system["comet"] = comet and {"score": comet.scores[number], "command": comet.command}
    if len(systems) == 1:
        return {**systems[0], **test}
    paired = _paired(*found.paired, systems) if found.paired else None
    seeds = {name: each._asdict() for name, each in found.seeds.items()} if found.seeds else None
    return {"systems": systems, **test, "paired": paired, "seeds": seeds}


def _system(system: System, assessment: "Assessment") -> dict[str, Any]:
    scores = {
        score.name: {
            "score": score.value,
            "signature": score.signature,
            "interval": _interval(score.interval),
        }
        for score in assessment.scores
    }
    return {
        **scores,
        "path": system.name,
        "kind": "model" if system.config else "translations",
        "sha256": system.sha256,
        "truncated": system.truncated,
        "lengths": {
            "score": assessment.scores[0].name,
            "unit": assessment.length_unit,
            "buckets": [bucket._asdict() for bucket in assessment.lengths],
        },
        "frequencies": [bucket._asdict() for bucket in assessment.frequencies] or None,
    }


def _paired(
    test: str, comparisons: "dict[str, Comparison]", systems: list[dict[str, Any]]
) -> dict[str, Any]:
    scores = {}
    for label, comparison in comparisons.items():
        rows = [
            {
                "path": system["path"],
                "score": each.value,
                "p_value": each.p_value,
                "interval": _interval(each.interval),
            }
            for system, each in zip(systems, comparison.systems, strict=True)
        ]
        scores[label] = {
            "signature": comparison.signature,
            "trials": comparison.trials,
            "systems": rows,
        }
    return {"test": test, "baseline": systems[0]["path"], "scores": scores}


def _interval(interval: "Interval | None") -> dict[str, Any] | None:
    return interval._asdict() if interval else None
