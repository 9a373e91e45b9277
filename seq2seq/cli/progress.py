"""How far a long translation has come, for someone who looks at a terminal."""

import sys
from collections.abc import Generator, Iterable
from typing import TextIO, TypeVar

from seq2seq.cli.lines import InputLines

T = TypeVar("T")


def shown(results: Iterable[T], lines: InputLines) -> Generator[T, None, None]:
    """The results, and meanwhile how many there are, how many a second, and how much was read."""
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
    """Does someone look at messages, and not at the translations themselves?"""
    return sys.stderr is not None and sys.stderr.isatty() and not output.isatty()
