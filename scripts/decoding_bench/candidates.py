"""What is compared: engine, number format, cache, and processes x threads."""

import re
from dataclasses import dataclass
from typing import NamedTuple

ENGINES = ("floor", "ours", "torch", "ct2", "hf")
LAYOUTS = ("2x1", "1x2")  # workers x threads of each


class BatchSize(NamedTuple):
    """Batch size of decoding."""

    size: int
    unit: str  # sentences, or tokens of the padded sources

    def __str__(self) -> str:
        return f"{self.size:,} {self.unit}"


@dataclass(frozen=True)
class Candidate:
    """Read from a name such as `ours-int8-paged-2x1`, `ct2-float32-1x2`, `hf-1x2` or `floor-2x1`.

    Attributes:
        engine: `torch` is `ours` without its C; `floor` is the bare matrix products of our float32
            run, without an engine.
        precision: float32, bfloat16 or int8.
        cache: of ours and torch, dense or paged.
        workers: processes; in CTranslate2, parallel translators of one process.
        threads: of each worker.
    """

    engine: str
    precision: str
    cache: str
    workers: int
    threads: int

    @property
    def name(self) -> str:
        parts = [self.engine]
        if self.engine in ("ours", "torch", "ct2"):
            parts.append(self.precision)
        if self.engine in ("ours", "torch"):
            parts.append(self.cache)
        return "-".join([*parts, self.layout])

    @property
    def layout(self) -> str:
        return f"{self.workers}x{self.threads}"

    @property
    def processes(self) -> int:
        """One for CTranslate2, which distributes the work itself."""
        return 1 if self.engine == "ct2" else self.workers

    @property
    def batch_units(self) -> tuple[str, ...]:
        """Units in which its batch size is tuned; empty if the engine chooses it."""
        return {"ct2": ("sentences", "tokens"), "hf": ("sentences",)}.get(self.engine, ())


def parse(name: str) -> Candidate:
    """Raises: ValueError for an unknown name."""
    engine, *rest = name.split("-")
    wanted = {"ours": 3, "torch": 3, "ct2": 2}.get(engine, 1)
    layout = re.fullmatch(r"(\d+)x(\d+)", rest[-1]) if rest else None
    if engine not in ENGINES or len(rest) != wanted or layout is None:
        raise ValueError(
            f"{name!r} is not a candidate; examples: {', '.join(c.name for c in ALL[:4])}"
        )
    precision = rest[0] if wanted > 1 else "float32"
    cache = rest[1] if wanted > 2 else "dense"
    return Candidate(engine, precision, cache, int(layout[1]), int(layout[2]))


ALL = [
    *(Candidate("floor", "float32", "dense", int(y[0]), int(y[2])) for y in LAYOUTS),
    *(Candidate("torch", p, "dense", 2, 1) for p in ("float32", "int8")),
    *(
        Candidate("ours", precision, cache, int(y[0]), int(y[2]))
        for precision, caches in (
            ("float32", ("dense", "paged")),
            ("bfloat16", ("dense",)),
            ("int8", ("dense",)),
        )
        for cache in caches
        for y in LAYOUTS
    ),
    *(
        Candidate("ct2", precision, "dense", int(y[0]), int(y[2]))
        for precision in ("float32", "int8")
        for y in LAYOUTS
    ),
    *(Candidate("hf", "float32", "dense", int(y[0]), int(y[2])) for y in LAYOUTS),
]
