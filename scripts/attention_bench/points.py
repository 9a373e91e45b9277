"""Measured points, the exponents fitted to them, and the limits of a measurement."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zoo import Preset

from attention_bench.measure import Decoding, Setting, Training
from seq2seq.attention import Role
from seq2seq.comparison.conditions import interleave

FITTED = 4  # the longest lengths of a run, where constant costs matter less


class Point(NamedTuple):
    """A mechanism at one length. Seconds are minima over rounds; bytes are of live tensors."""

    preset: str
    length: int
    forward: float
    backward: float
    both: float  # the fastest round, so not the sum of the two above
    forward_peak: int
    held: int  # by the forward pass for the backward pass, the output included
    both_peak: int
    step: float | None = None  # seconds of one more token; None in the encoder
    step_bytes: int | None = None  # cache at this length, and the peak of the step on top of it
    preparing: float = 0.0  # seconds to fill the cache


class Limits(NamedTuple):
    """Limits of a point; points beyond them are left out."""

    seconds: float  # of a round, or of filling the cache before a decoding step
    bytes: float

    def excess(self, points: Sequence[Point], length: int) -> str | None:
        """The limit that the next point would exceed, extrapolated from the last ones, or None."""
        if not points:
            return None
        seconds = max(
            foreseen([(p.length, p.both) for p in points], length),
            foreseen([(p.length, p.preparing) for p in points], length),
        )
        if seconds > self.seconds:
            return f"about {seconds:.0f} s"
        peak = foreseen([(p.length, p.both_peak) for p in points], length)
        if peak > self.bytes:
            return f"about {peak / 1e9:.1f} GB"
        return None


def foreseen(points: Sequence[tuple[int, float]], length: int) -> float:
    """A value extrapolated to a greater length from the last two points; quadratically from one."""
    (last, value), power = points[-1], 2.0
    if len(points) > 1 and points[-2][1] > 0 < value:
        power = exponent(points[-2:])
    growth: float = (length / last) ** max(1.0, power)
    return value * growth


def exponent(points: Iterable[tuple[float, float]]) -> float:
    """p of value ~ length^p: the slope of the least squares line through the logarithms."""
    logs = [(math.log(length), math.log(value)) for length, value in points]
    x, y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    slope: float = sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)
    return slope


def measure(presets: Sequence[Preset], length: int, setting: Setting, rounds: int) -> list[Point]:
    """All presets at one length: memory once, then times in interleaved rounds."""
    training = {p.name: Training(p, length, setting) for p in presets}
    memory = {name: work.memory() for name, work in training.items()}  # warms up, too
    passes = interleave({name: work.round for name, work in training.items()}, rounds, 0)
    points = {
        name: Point(
            name,
            length,
            forward=min(first for first, _ in passes[name]),
            backward=min(second for _, second in passes[name]),
            both=min(map(sum, passes[name])),
            forward_peak=forward.peak,
            held=forward.held,
            both_peak=both.peak,
        )
        for name, (forward, both) in memory.items()
    }
    if setting.role is not Role.ENCODER:
        del training
        points = with_steps(points, presets, length, setting, rounds)
    return list(points.values())


def with_steps(
    points: dict[str, Point], presets: Sequence[Preset], length: int, setting: Setting, rounds: int
) -> dict[str, Point]:
    """The points with the costs of one decoding step."""
    decoding = {p.name: Decoding(p, length, setting) for p in presets}
    needed = {name: work.bytes() for name, work in decoding.items()}
    steps = interleave({name: work.round for name, work in decoding.items()}, rounds, 0)
    return {
        name: point._replace(
            step=min(steps[name]), step_bytes=needed[name], preparing=decoding[name].preparing
        )
        for name, point in points.items()
    }
