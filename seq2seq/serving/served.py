"""A model at work in a thread of its own: texts of all clients share its batches."""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Self, TypeVar

import torch

from seq2seq.alignment.choice import Choice, guided, sharpest
from seq2seq.alignment.saved_choice import load_choice
from seq2seq.checkpoint import find
from seq2seq.decoding import Search, engine_options
from seq2seq.decoding.precision import computed_by
from seq2seq.decoding.workers import Workers
from seq2seq.errors import ConfigError
from seq2seq.languages import is_spaceless, language_code
from seq2seq.text_engine import Translation
from seq2seq.text_request import PLACEHOLDERS, Rules, TextRequest
from seq2seq.translator import Translator

Result = TypeVar("Result")
Found = list[Translation] | None

WATCHED = 0.05  # seconds between two looks at unfinished translations
BEAMS = 5  # of a search for what a translation must contain, if the configured one is greedy


class Text(NamedTuple):
    """A sentence to translate, as the front has prepared it."""

    asked: TextRequest
    ids: list[int]  # its pieces
    search: Search
    ways: int = 0  # to go on after its prefix; 0 = translations


@dataclass(eq=False)
class Job:
    """The texts of one request, answered together.

    Attributes:
        answer: what the front waits for. When it is cancelled, so is the job.
        watch: is told the best translations so far, in the loop of the front.
    """

    texts: Sequence[Text]
    answer: "asyncio.Future[list[Found]]"
    watch: Callable[[list[str]], None] | None = None
    since: float = field(default_factory=time.monotonic)
    found: dict[int, Found] = field(default_factory=dict)  # by place
    ids: list[int] = field(default_factory=list)  # of the engine

    @property
    def pieces(self) -> int:
        return sum(len(text.ids) for text in self.texts)


class Arithmetic(NamedTuple):
    """The way in which a model computes; `str()` is for people.

    Attributes:
        precision: as in `Translator.engine`.
        beam_size: of a request that does not say it.
        threads: of all processes together.
        decoder: `c` or `torch`.
        reason: why it is torch; empty for C.
    """

    precision: str
    beam_size: int
    threads: int
    decoder: str
    reason: str

    def __str__(self) -> str:
        beams = f"{self.beam_size} beam{'s' * (self.beam_size != 1)}"
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        decoder = f"torch: {self.reason}" if self.reason else "C"
        return f"{self.precision}, {beams}, {threads}, decoded in {decoder}"


class Served:
    """A model, its engine and the thread that works with it.

    The front, a single thread with an event loop, calls `submit`, `run` and `close`. Only the
    engine's thread touches the engine: it carries out orders between two steps.

    Args:
        name: by which clients ask for it.
        path: of the checkpoint, or the folder of a run.
        device: as in `Translator.load`.
        search: options of the search; None = as configured.
        engine: options of the engine.

    Attributes:
        arithmetic: the way in which it computes.
        pieces: of all texts that are not answered yet.
    """

    def __init__(
        self,
        name: str,
        path: str | Path,
        device: str = "auto",
        search: Mapping[str, Any] | None = None,
        engine: Mapping[str, Any] | None = None,
    ):
        self.name = name
        self.translator = Translator.load(path, device)
        data = self.translator.config["data"]
        self.source, self.target = language_code(data["source"]), language_code(data["target"])
        self.search = self.translator.search(**(search or {}))
        options = {"cache": "paged", "workers": 1, **(engine or {})}
        self.sentences = self.translator.engine(self.search, **options)
        self.rules = Rules(keep=re.compile(PLACEHOLDERS), spaceless=is_spaceless(data["source"]))
        self.engine = self.translator.text_engine(self.sentences, rules=self.rules)
        self.codec = self.engine.codec
        self.labels = self.translator.target.texts()
        self._searches = {self.search.beams: self.search}  # by beams
        workers = self.sentences.count if isinstance(self.sentences, Workers) else 1
        decode = {**self.translator.config["decode"], **{k: v for k, v in options.items() if v}}
        precision = engine_options(decode)["precision"]
        decoder, _, reason = computed_by(self.sentences.model).partition(": ")
        self.arithmetic = Arithmetic(
            precision, self.search.beams, workers * torch.get_num_threads(), decoder.lower(), reason
        )
        # The first translation allocates; worker processes start when there is work for two.
        for _ in self.engine.translate([TextRequest("a")] * workers):
            pass
        # Which weights link words; None if none can.
        self.choice: Choice | None = None
        with suppress(ConfigError):
            guess = sharpest([self.translator.align("a", "a")])
            chosen = load_choice(find(Path(path))) or guided(self.translator.config)
            self.choice = chosen or guess
        self.pieces = 0
        self._waiting: dict[Job, None] = {}  # not answered yet, oldest first
        self._places: dict[int, tuple[Job, int]] = {}  # of each text that is translated, by id
        self._watched: set[Job] = set()
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        self._looked = 0.0  # when jobs were watched last
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._work, name=f"engine of {name}", daemon=True)

    def start(self) -> Self:
        """Begin to work for the event loop that runs."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    # What the front calls.

    @property
    def age(self) -> float:
        """Seconds since the oldest request that is not answered yet came."""
        return time.monotonic() - next(iter(self._waiting)).since if self._waiting else 0.0

    def text(self, asked: TextRequest, ids: list[int], beams: int = 1, ways: int = 0) -> Text:
        """A text, with a search that has at least so many beams."""
        beams = max(beams, self.search.beams)
        if beams == 1 and self.rules.terms(asked):
            beams = BEAMS
        if beams not in self._searches:
            self._searches[beams] = self.translator.search(beam_size=beams)
        return Text(asked, ids, self._searches[beams], ways)

    def submit(
        self, texts: Sequence[Text], watch: Callable[[list[str]], None] | None = None
    ) -> "asyncio.Future[list[Found]]":
        """Put texts at the end of the queue. Returns: their translations; cancel to drop them."""
        job = Job(texts, self._loop.create_future(), watch)
        if not texts:
            job.answer.set_result([])
            return job.answer
        self._waiting[job] = None
        self.pieces += job.pieces
        job.answer.add_done_callback(partial(self._leave, job))
        self._order(partial(self._start, job))
        return job.answer

    def _leave(self, job: Job, answer: "asyncio.Future[list[Found]]") -> None:
        del self._waiting[job]
        self.pieces -= job.pieces
        if answer.cancelled():
            self._order(partial(self._drop, job))

    def run(self, function: Callable[[], Result]) -> "asyncio.Future[Result]":
        """Call a function that uses the model, between two steps of the engine."""
        if self._closed:  # between an answer and its links; the engine is at rest for ever
            return asyncio.ensure_future(asyncio.to_thread(function))
        answer: asyncio.Future[Result] = self._loop.create_future()

        def order() -> None:
            if not answer.cancelled():
                try:
                    self._tell([(answer, function())])
                except Exception as error:
                    self._tell([(answer, error)])

        self._order(order)
        return answer

    async def close(self) -> None:
        """End the thread when all is answered."""
        while self._waiting:
            await asyncio.sleep(0.05)
        self._closed = True
        self._orders.put(None)
        await asyncio.to_thread(self._thread.join)
        if isinstance(self.sentences, Workers):
            self.sentences.close()

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.put(order)
        if isinstance(self.sentences, Workers):
            self.sentences.wake()

    # What the engine's thread does.

    def _work(self) -> None:
        while True:
            while not (self.engine.busy and self._orders.empty()):
                order = self._orders.get()
                if order is None:
                    return
                order()
            self._step()

    def _start(self, job: Job) -> None:
        if job.answer.cancelled():
            return
        submit, alternatives = self.engine.submit, self.engine.submit_alternatives
        try:
            for place, (asked, ids, search, ways) in enumerate(job.texts):
                if ways:
                    i = alternatives(asked.text, asked.prefix, ways, search)
                else:
                    i = submit(search=search, ids=ids, **asked._asdict())
                job.ids.append(i)
                self._places[i] = job, place
        except Exception as error:
            self._drop(job)
            self._tell([(job.answer, error)])
        else:
            if job.watch:
                self._watched.add(job)

    def _drop(self, job: Job) -> None:
        self._watched.discard(job)
        self.engine.cancel(*(i for i in job.ids if self._places.pop(i, None)))

    def _step(self) -> None:
        try:
            answers = self.engine.step()
        except Exception as error:  # such as one for lack of memory: the engine has dropped all
            for job in {job for job, _ in self._places.values()}:
                self._drop(job)
                self._tell([(job.answer, error)])
            return
        complete: list[tuple[asyncio.Future[Any], Any]] = []
        for i, found in answers:
            job, place = self._places.pop(i)
            job.found[place] = found
            if len(job.found) == len(job.texts):
                self._watched.discard(job)
                complete.append((job.answer, [job.found[i] for i in range(len(job.texts))]))
        if complete:
            self._tell(complete)
        now = time.monotonic()
        if self._watched and now - self._looked >= WATCHED:
            self._looked = now
            for job in self._watched:
                so_far = [self._so_far(job, place) for place in range(len(job.texts))]
                assert job.watch is not None
                self._loop.call_soon_threadsafe(job.watch, so_far)

    def _so_far(self, job: Job, place: int) -> str:
        if place not in job.found:
            return self.engine.best_so_far(job.ids[place])
        found = job.found[place]
        return found[0].text if found else ""

    def _tell(self, answers: Sequence[tuple["asyncio.Future[Any]", Any]]) -> None:
        self._loop.call_soon_threadsafe(settle, answers)


def settle(answers: Sequence[tuple["asyncio.Future[Any]", Any]]) -> None:
    """Give results, or errors, to those who still wait for them."""
    for future, result in answers:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
