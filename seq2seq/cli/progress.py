"""How far a long translation has come, on a terminal or in a log."""

import sys
import threading
import time
from collections.abc import Generator, Iterable
from typing import TextIO, TypeVar

from seq2seq.cli.lines import InputLines

T = TypeVar("T")
SILENCE = 60.0  # seconds between two lines where there is no terminal


def shown(results: Iterable[T], lines: InputLines) -> Generator[T, None, None]:
    """The results, and meanwhile on stderr how far they have come."""
    return as_bar(results, lines) if sys.stderr.isatty() else as_lines(results)


def as_lines(results: Iterable[T]) -> Generator[T, None, None]:
    """Now and then a line: how many results there are, and how many a second.

    By a thread of its own, since the first of many results may take minutes.
    """
    count, begun, over = 0, time.perf_counter(), threading.Event()

    def speak() -> None:
        while not over.wait(SILENCE):
            rate = count / (time.perf_counter() - begun)
            print(f"{count:,} lines, {rate:,.1f}/s", file=sys.stderr, flush=True)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        for result in results:
            count += 1
            yield result
    finally:
        over.set()
        speaker.join()


def as_bar(results: Iterable[T], lines: InputLines) -> Generator[T, None, None]:
    """A bar: how many results there are, how many a second, and how much was read."""
    # A tenth of a second, for those only who see it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TextColumn("{task.fields[lines]:,} lines, {task.fields[rate]:,.1f}/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=lines.size, lines=0, rate=0.0)
        for count, result in enumerate(results, start=1):
            yield result
            rate = count / max(progress.tasks[0].elapsed or 0.0, 1e-9)
            progress.update(task, completed=lines.bytes, lines=count, rate=rate)


def wanted(output: TextIO) -> bool:
    """Does nobody see the translations themselves, as they come?"""
    return sys.stderr is not None and not output.isatty()
