"""Rates, and ratios to the floor and to the other engines."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarking import spread

from decoding_bench.measure import Measured, Result

TITLES = (
    "candidate",
    "sentences/s, median (lowest - highest)",
    "target tokens/s",
    "x floor",
    "x CTranslate2",
    "x HF",
    "same as ours",
    "BLEU",
    "batch",
    "resident, MB",
)
STEADY = 1.1  # maximum ratio of the slowest to the fastest round of a floor
Quality = Callable[[list[list[int]]], float]  # BLEU of hypotheses


class Line(NamedTuple):
    """A candidate's figures; None where there is nothing to compare with."""

    name: str
    rates: list[float]  # sentences/s of each round
    tokens: float  # target pieces/s, EOS included
    floor: float | None  # its time / that of the bare products in the same layout
    ct2: float | None  # its rate / the best of CTranslate2 in the same precision
    hf: float | None  # its rate / the best of Hugging Face
    same: float | None  # share of hypotheses equal to ours in float32
    bleu: float | None
    batch_size: str | None
    resident: int  # bytes


def lines(measured: Measured, quality: Quality | None = None) -> list[Line]:
    """One line per candidate, in the order of measurement."""
    return [line(result, measured, quality) for result in measured.results.values()]


def line(result: Result, measured: Measured, quality: Quality | None) -> Line:
    results, candidate = measured.results, result.candidate
    count = len(result.hypotheses)
    ends = 0 if measured.job.regime == "forced" else count
    ct2 = fastest(results, "ct2", "int8" if candidate.precision == "int8" else "float32")
    hf, floor = fastest(results, "hf", "float32"), results.get(f"floor-{candidate.layout}")
    ours = reference(results)
    bare = candidate.engine == "floor"
    return Line(
        name=candidate.name,
        rates=[count / each for each in result.seconds],
        tokens=(sum(map(len, result.hypotheses)) + ends) / result.typical,
        floor=ratio(result, floor),
        ct2=None if bare else ratio(ct2, result),
        hf=None if bare else ratio(hf, result),
        same=None if bare or ours is None else same(result.hypotheses, ours.hypotheses),
        bleu=None if bare or quality is None else quality(result.hypotheses),
        batch_size=None if result.batch_size is None else str(result.batch_size),
        resident=result.resident,
    )


def ratio(slower: Result | None, faster: Result | None) -> float | None:
    """Time of one over time of the other."""
    return None if slower is None or faster is None else slower.typical / faster.typical


def fastest(results: Mapping[str, Result], engine: str, precision: str) -> Result | None:
    """The faster of an engine's layouts."""
    of_engine = [
        result
        for result in results.values()
        if (result.candidate.engine, result.candidate.precision) == (engine, precision)
    ]
    return min(of_engine, key=lambda result: result.typical, default=None)


def reference(results: Mapping[str, Result]) -> Result | None:
    """Ours in float32: the reference for hypotheses."""
    ours = (r for r in results.values() if r.candidate.name.startswith("ours-float32"))
    return next(ours, None)


def same(hypotheses: Sequence[list[int]], others: Sequence[list[int]]) -> float:
    return sum(a == b for a, b in zip(hypotheses, others, strict=True)) / len(others)


def table(figures: Sequence[Line]) -> str:
    """The figures in Markdown."""
    head = f"| {' | '.join(TITLES)} |\n|{'---|' * len(TITLES)}"
    rows = [
        [
            each.name,
            spread(each.rates),
            f"{each.tokens:,.0f}",
            *(written(value, ".2f") for value in (each.floor, each.ct2, each.hf)),
            written(each.same, ".1%"),
            written(each.bleu, ".1f"),
            written(each.batch_size, "s"),
            f"{each.resident / 1e6:,.0f}",
        ]
        for each in figures
    ]
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in rows)])


def written(value: float | str | None, form: str) -> str:
    return "" if value is None else format(value, form)


def section(measured: Measured, figures: Sequence[Line]) -> str:
    """The table of a job, and notes on its rounds."""
    runs = [run for result in measured.results.values() for run in result.runs]
    load, disturbed = max(run.load for run in runs), sum(run.disturbed for run in runs)
    said = (
        f"{len(runs)} runs, during which other processes used at most {load:.2f} cores; "
        f"{disturbed} other runs were disturbed and do not count."
    )
    unsteady = [
        result.candidate.name
        for result in measured.results.values()
        if result.candidate.engine == "floor" and max(result.seconds) > STEADY * min(result.seconds)
    ]
    if unsteady:
        said += f" Not steady: the rounds of {', '.join(unsteady)} differ by more than 10 %."
    left_out = "".join(f"\n- left out {each}" for each in measured.left_out)
    return f"## {measured.job.title}\n\n{said}{left_out}\n\n{table(figures)}\n"


def record(measured: Measured, figures: Sequence[Line]) -> dict[str, Any]:
    """The same as plain values, with the seconds of every round."""
    return {
        **measured.job._asdict(),
        "left_out": measured.left_out,
        "candidates": [
            {**each._asdict(), "runs": [run._asdict() for run in measured.results[each.name].runs]}
            for each in figures
        ],
    }
