"""Measured points as Markdown tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from zoo import Preset

from attention_bench.points import FITTED, Point, exponent

TIME, MEMORY = 1.25, 1.10  # exponents that a sub-quadratic mechanism may have
MARK = "*"  # after the name of a mechanism that claims to cost less than T S


class Quantity(NamedTuple):
    """Something that grows with length."""

    title: str
    unit: str
    of: Callable[[Point], float | None]  # in that unit
    bar: float


FORWARD = Quantity("Forward", "ms", lambda p: p.forward * 1e3, TIME)
BACKWARD = Quantity("Backward", "ms", lambda p: p.backward * 1e3, TIME)
BOTH = Quantity("Forward and backward", "ms", lambda p: p.both * 1e3, TIME)
FORWARD_PEAK = Quantity("Peak of forward", "MB", lambda p: p.forward_peak / 1e6, MEMORY)
HELD = Quantity("Held for backward", "MB", lambda p: p.held / 1e6, MEMORY)
BOTH_PEAK = Quantity("Peak of forward and backward", "MB", lambda p: p.both_peak / 1e6, MEMORY)
STEP = Quantity("One decoding step", "µs", lambda p: p.step and p.step * 1e6, TIME)
STEP_BYTES = Quantity(
    "Remembered and peak of a step", "kB", lambda p: p.step_bytes and p.step_bytes / 1e3, MEMORY
)
ALL = (FORWARD, BACKWARD, BOTH, FORWARD_PEAK, HELD, BOTH_PEAK, STEP, STEP_BYTES)
SUMMARY = (BOTH, BOTH_PEAK, STEP, STEP_BYTES)

Curves = Mapping[str, Sequence[Point]]  # preset -> its points, shortest first


class Growth(NamedTuple):
    """The points of all presets, by preset, quantity and length."""

    curves: Curves
    presets: Mapping[str, Preset]
    lengths: Sequence[int]

    @property
    def fitted(self) -> Sequence[int]:
        return self.lengths[-FITTED:]

    def quantities(self, wanted: Sequence[Quantity]) -> list[Quantity]:
        """The quantities that were measured: an encoder has no decoding steps."""
        points = [point for curve in self.curves.values() for point in curve]
        return [q for q in wanted if any(q.of(p) is not None for p in points)]

    def values(self, name: str, quantity: Quantity) -> dict[int, float]:
        measured = {point.length: quantity.of(point) for point in self.curves[name]}
        return {length: value for length, value in measured.items() if value is not None}

    def exponent(self, name: str, quantity: Quantity) -> float | None:
        """Over the longest lengths of the run; None if fewer than two were measured."""
        points = [(n, v) for n, v in self.values(name, quantity).items() if n in self.fitted and v]
        return exponent(points) if len(points) > 1 else None


def name_of(preset: Preset) -> str:
    return f"{preset.name}{MARK}" if preset.is_subquadratic else preset.name


def power(growth: Growth, name: str, quantity: Quantity) -> str:
    """`1.03`, or `1.41 > 1.25` where a mechanism grows faster than it claims."""
    fitted = growth.exponent(name, quantity)
    if fitted is None:
        return "-"
    over = growth.presets[name].is_subquadratic and fitted > quantity.bar
    return f"{fitted:.2f} > {quantity.bar}" if over else f"{fitted:.2f}"


def figure(value: float | None) -> str:
    """Three significant digits, or an integer."""
    if value is None:
        return "-"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def summary(growth: Growth) -> str:
    """One line per mechanism: each quantity at its longest length, and its exponent."""
    quantities = growth.quantities(SUMMARY)
    header = ["`attn=`", "claimed time"]
    for quantity in quantities:
        header += [f"{quantity.title}, {quantity.unit}", "exponent"]
    rows = []
    for name, preset in growth.presets.items():
        row = [name_of(preset), preset.cost.time]
        for quantity in quantities:
            values = growth.values(name, quantity)
            longest = max(values)
            at = "" if longest == growth.lengths[-1] else f" (at {longest:,})"
            row += [figure(values[longest]) + at, power(growth, name, quantity)]
        rows.append(row)
    return table(header, rows)


def details(growth: Growth) -> str:
    """One table per quantity, one column per length."""
    parts = []
    for quantity in growth.quantities(ALL):
        header = ["`attn=`", *(f"{length:,}" for length in growth.lengths), "exponent"]
        rows = []
        for name, preset in growth.presets.items():
            values = growth.values(name, quantity)
            cells = [figure(values.get(length)) for length in growth.lengths]
            rows.append([name_of(preset), *cells, power(growth, name, quantity)])
        parts.append(f"### {quantity.title}, {quantity.unit}\n\n{table(header, rows)}")
    return "\n\n".join(parts)


def page(growth: Growth, conditions: Sequence[str], left_out: Sequence[str]) -> str:
    """The whole report."""
    fitted = ", ".join(f"{length:,}" for length in growth.fitted)
    note = (
        f"Exponents: least squares in logarithms over lengths {fitted}. {MARK} claims to grow more "
        f"slowly than T S: its exponents should be at most {TIME} (time) and {MEMORY:.2f} (memory)."
    )
    longest = f"## At {growth.lengths[-1]:,} tokens"
    parts = ["  \n".join(conditions), longest, summary(growth), note]
    if left_out:
        parts.append("Left out:\n\n" + "\n".join(f"- {line}" for line in left_out))
    return "\n\n".join([*parts, "## By length", details(growth)]) + "\n"
