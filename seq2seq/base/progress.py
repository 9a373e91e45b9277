"""Progress of long-running work: a bar on a terminal, or lines in a log."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import ClassVar, TextIO, TypeVar

from seq2seq.base.environment import delay_interrupts

T = TypeVar("T")
SILENCE = 60.0  # seconds between two lines of a log
REFRESH = 0.2  # seconds between two updates of a bar
THREAD = "progress"  # name of the thread that shows progress


@dataclass
class Tally:
    """The amount of work done so far, which the work itself updates.

    Attributes:
        work: name of the work.
        unit: what is counted, in the plural.
        total: amount of work; None if unknown.
    """

    work: str
    unit: str
    total: int | None = None
    done: int = 0
    started_at: float = field(default_factory=time.perf_counter)
    soon: ClassVar[float] = 10.0  # seconds before the first line of a log

    def count(self, items: Iterable[T], size: Callable[[T], int] = lambda _: 1) -> Iterator[T]:
        """Yield the items; each is counted when the next is requested."""
        for item in items:
            yield item
            self.done += size(item)

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.done / max(time.perf_counter() - self.started_at, 1e-9)

    @property
    def share(self) -> float | None:
        """The share of the work that is done; None if the total is unknown."""
        return self.done / self.total if self.total else None

    def __str__(self) -> str:
        total = "" if self.total is None else f" of {self.total:,}"
        return f"{self.work}: {self.done:,}{total} {self.unit}, {self.rate:,.0f}/s"


@contextmanager
def show_progress(work: str, unit: str, total: int | None = None) -> Iterator[Tally]:
    """Show progress on stdout until the block ends; the work updates the tally."""
    tally = Tally(work, unit, total)
    with show_tally(tally, sys.stdout):
        yield tally


@contextmanager
def show_tally(tally: Tally, stream: TextIO | None) -> Iterator[None]:
    """Show a tally until the block ends; if the stream is None, show nothing.

    A separate thread shows it, because single steps, such as learning the merges of a tokenizer,
    also take minutes. Work that ends within a moment shows nothing.
    """
    if stream is None:  # as sys.stderr is after `2>&-`
        yield
        return
    over = threading.Event()
    show = draw_bar if stream.isatty() else print_lines
    thread = threading.Thread(target=show, name=THREAD, args=(tally, over, stream), daemon=True)
    with delay_interrupts():  # Ctrl-C is for the main thread
        thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def print_lines(tally: Tally, over: threading.Event, stream: TextIO) -> None:
    """Print the tally after at most `tally.soon` seconds, then every `SILENCE` seconds."""
    pause = min(tally.soon, SILENCE)
    with suppress(OSError):  # a full disk or closed pipe must not stop the work
        while not over.wait(pause):
            print(tally, file=stream, flush=True)
            pause = SILENCE


def draw_bar(tally: Tally, over: threading.Event, stream: TextIO) -> None:
    """Draw the tally as a bar on a terminal, and erase it at the end."""
    if over.wait(REFRESH):
        return
    # Imported here: it takes a tenth of a second.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = BarColumn(bar_width=None), TextColumn("{task.description}"), TimeElapsedColumn()
    console = Console(file=stream)
    # Refreshed by this thread, so no second one is needed; erased at the end.
    bar = Progress(*columns, console=console, transient=True, auto_refresh=False)
    with suppress(OSError), bar:
        task = bar.add_task(str(tally), total=None if tally.share is None else 1)
        while not over.wait(REFRESH):
            bar.update(task, description=str(tally), completed=tally.share or 0, refresh=True)
