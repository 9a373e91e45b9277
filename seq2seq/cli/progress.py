"""The progress of a long translation, on a terminal or in a log."""

import sys
import threading
import time
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar

from seq2seq.errors import format_count

if TYPE_CHECKING:
    from seq2seq.decoding import Engine
    from seq2seq.decoding.workers import Workers

T = TypeVar("T")
SILENCE = 60.0  # seconds between two lines of a log


def print_stats(engine: "Engine | Workers") -> None:
    """Print the statistics of an engine, and what computed its steps, on stderr."""
    from seq2seq.decoding.precision import describe_backend  # only here: torch takes a second

    print(engine.stats, file=sys.stderr)
    print(f"decoding steps computed by: {describe_backend(engine.model)}", file=sys.stderr)


class Read(Protocol):
    """An input: the bytes that were read so far, and their total if it is known."""

    bytes: int

    @property
    def size(self) -> int | None: ...


def with_progress(
    results: Iterable[T], lines: Read, unit: str = "line"
) -> Generator[T, None, None]:
    """Pass the results on, each of them a unit, and report their progress on stderr."""
    report = with_bar if sys.stderr.isatty() else with_log
    return report(results, lines, unit)


def with_log(
    results: Iterable[T], lines: Read | None = None, unit: str = "line"
) -> Generator[T, None, None]:
    """Log the count of results and their rate every `SILENCE` seconds.

    A thread does it, since the first of many results may take minutes.
    """
    count, begun, over = 0, time.perf_counter(), threading.Event()

    def log() -> None:
        while not over.wait(SILENCE):
            rate = count / (time.perf_counter() - begun)
            size = lines.size if lines else None
            share = f", {lines.bytes / size:.0%} read" if lines and size else ""
            print(f"{format_count(count, unit)}, {rate:,.1f}/s{share}", file=sys.stderr, flush=True)

    logger = threading.Thread(target=log, daemon=True)
    logger.start()
    try:
        for result in results:
            count += 1
            yield result
    finally:
        over.set()
        logger.join()


def with_bar(results: Iterable[T], lines: Read, unit: str) -> Generator[T, None, None]:
    """Show a bar: the count of results, their rate, and how much of the input was read."""
    # Imported here: it takes a tenth of a second.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TextColumn("{task.fields[done]}, {task.fields[rate]:,.1f}/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=lines.size, done=format_count(0, unit), rate=0.0)
        for count, result in enumerate(results, start=1):
            yield result
            rate = count / max(progress.tasks[0].elapsed or 0.0, 1e-9)
            done = format_count(count, unit)
            progress.update(task, completed=lines.bytes, done=done, rate=rate)


def should_show(output: TextIO) -> bool:
    """Show progress? Not where the translations themselves appear on a terminal."""
    return sys.stderr is not None and not output.isatty()
