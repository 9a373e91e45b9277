"""A model at work in a thread of its own: texts of all clients share its batches."""

import asyncio
import logging
import math
import re
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Self

import torch
from seq2seq.decoding.answering import GivenUp

from seq2seq.alignment.choice import Choice, choice_of_guided_head, guess_choice
from seq2seq.alignment.saved_choice import load_choice
from seq2seq.checkpoint.folder import find_checkpoint
from seq2seq.constraints.placeholders import PLACEHOLDERS, Placeholders
from seq2seq.constraints.request import Rules, TextRequest
from seq2seq.decoding import engine_options
from seq2seq.decoding.precision import describe_backend
from seq2seq.decoding.workers import Workers
from seq2seq.errors import ConfigError
from seq2seq.languages import language_code
from seq2seq.serving.errors import HTTPError, log_mistake
from seq2seq.serving.jobs import Found, Job, Place, Text, slices
from seq2seq.serving.queue import QueuedEngine, Waiting
from seq2seq.translator import Translator

log = logging.getLogger("seq2seq.serving")

WATCHED = 0.05  # seconds between two looks at unfinished translations
BEAMS = 5  # of a search for what a translation must contain, if the configured one is greedy


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


class ModelWorker:
    """A model, its engine and the thread that works with it.

    The front, a single thread with an event loop, calls `submit` and `close`. Only the engine's
    thread touches the engine: it carries out orders between two steps, and aligns a few pairs. An
    error in any of these is the answer to the jobs that it belongs to, and the thread goes on; if
    it cannot, it answers all jobs with an error, and is seen to have ended.

    Args:
        name: by which clients ask for it.
        path: of the checkpoint, or the folder of a run.
        device: as in `Translator.load`.
        search: options of the search; None = as configured.
        engine: options of the engine.

    Attributes:
        arithmetic: the way in which it computes.
        waiting: what is accepted and not answered yet.
        alive: is its thread able to work?
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
        workers = self.sentences.count if isinstance(self.sentences, Workers) else 1
        decode = {**self.translator.config["decode"], **{k: v for k, v in options.items() if v}}
        precision = engine_options(decode)["precision"]
        decoder, _, reason = describe_backend(self.sentences.model).partition(": ")
        self.arithmetic = Arithmetic(
            precision, self.search.beams, workers * torch.get_num_threads(), decoder.lower(), reason
        )
        self.rules = Rules(placeholders=Placeholders(re.compile(PLACEHOLDERS)))
        self.queue = QueuedEngine(self.sentences)
        self.engine = self.translator.text_engine(self.queue, rules=self.rules)
        self.codec = self.engine.codec
        self.labels = self.translator.target.texts()
        self._searches = {self.search.beams: self.search}  # by beams
        self.choice: Choice | None = None  # which weights link words; None if none can
        try:
            self._warm_up(path, workers)
        except BaseException:
            self.sentences.close()
            raise
        self.waiting = Waiting()
        self.alive = True
        self._waiting: dict[Job, None] = {}  # not answered yet, oldest first
        self._places: dict[int, tuple[Job, int]] = {}  # of each text that is translated, by id
        self._watched: set[Job] = set()
        self._aligning: deque[tuple[Job, Iterator[list[Place]]]] = deque()
        self._aligns = 0.0  # when the next pairs are aligned, if the engine is busy
        self._orders: SimpleQueue[tuple[Callable[[Job], None], Job] | None] = SimpleQueue()
        self._looks = 0.0  # when jobs are watched next
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._work, name=f"engine of {name}", daemon=True)

    def _warm_up(self, path: str | Path, workers: int) -> None:
        """Translate and align something: what is needed once is then there."""
        # The first translation allocates; worker processes start when there is work for two.
        for _ in self.engine.translate([TextRequest("a")] * workers):
            pass
        with suppress(ConfigError):
            guess = guess_choice([self.translator.align("a", "a")])
            chosen = load_choice(find_checkpoint(Path(path))) or choice_of_guided_head(
                self.translator.config
            )
            self.choice = chosen or guess

    def start(self) -> Self:
        """Begin to work for the event loop that runs."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    # What the front calls.

    @property
    def pieces(self) -> int:
        """Of all texts that are not answered yet."""
        return self.waiting.pieces

    @property
    def age(self) -> float:
        """Seconds since the oldest request that is not answered yet came."""
        return time.monotonic() - next(iter(self._waiting)).since if self._waiting else 0.0

    def seconds(self, client: Hashable, pieces: int) -> float:
        """The least time until a request of so many pieces is translated, with what is translated
        before it, in seconds; 0 if this is not known.
        """
        speed = self.queue.speed.pieces_per_second()
        return self.waiting.before(client, pieces) * self.search.beams / speed if speed else 0.0

    def text(
        self, asked: TextRequest, ids: list[int], beams: int = 1, ways: int = 0, linked: int = 0
    ) -> Text:
        """A text, with a search that has at least so many beams."""
        beams = max(beams, self.search.beams)
        if beams == 1 and self.rules.terms(asked.text, asked.must, asked.must_not):
            beams = BEAMS
        if beams not in self._searches:
            self._searches[beams] = self.translator.search(beam_size=beams)
        times = beams / self.search.beams * max(1, ways) + linked
        pieces = math.ceil(max(1, len(ids)) * times)
        return Text(asked, ids, self._searches[beams], pieces, ways, linked)

    def submit(
        self,
        texts: Sequence[Text],
        watch: Callable[[list[str]], None] | None = None,
        client: Hashable = None,
    ) -> "asyncio.Future[list[Found]]":
        """Put texts into the queue. Returns: their translations; cancel to drop them."""
        job = Job(texts, client, self._loop.create_future(), watch)
        if not texts:
            job.answer.set_result([])
            return job.answer
        self._waiting[job] = None
        self.waiting.add(job.owner, job.pieces)
        job.answer.add_done_callback(partial(self._leave, job))
        self.order(self._start, job)
        return job.answer

    def _leave(self, job: Job, answer: "asyncio.Future[list[Found]]") -> None:
        del self._waiting[job]
        self.waiting.remove(job.owner)
        if answer.cancelled():
            self.order(self._drop, job)

    async def close(self) -> None:
        """End the thread when all is answered."""
        while self._waiting and self.alive:
            await asyncio.sleep(0.05)
        self._orders.put(None)
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)
        self.sentences.close()

    def order(self, function: Callable[[Job], None], job: Job) -> None:
        """Let the engine's thread call a function of a job, between two steps."""
        self._orders.put((function, job))
        self.sentences.wake()

    def _end(self) -> None:
        """Answer all jobs when the engine's thread has ended without being told to."""
        settle([(job.answer, self.ended()) for job in self._waiting])

    def ended(self) -> HTTPError:
        """The answer to all requests after that."""
        return HTTPError(
            503,
            f"model {self.name!r} has stopped working, and the server's log says where: load it "
            "again (SIGHUP), or start the server again",
            {"retry-after": "30"},
        )

    # What the engine's thread does.

    def _work(self) -> None:
        try:
            while self._carry_out_orders():
                if self.engine.busy:
                    self._advance()
                if self._aligning and not (self.engine.busy and time.monotonic() < self._aligns):
                    self._align()
        except BaseException as error:
            self.alive = False
            log.critical("the engine of %s has ended", self.name)
            log_mistake(error)
            self._loop.call_soon_threadsafe(self._end)

    def _carry_out_orders(self) -> bool:
        """Carry out all orders; wait for one if there is nothing else to do. False at the end."""
        while not ((self.engine.busy or self._aligning) and self._orders.empty()):
            order = self._orders.get()
            if order is None:
                return False
            function, job = order
            try:
                function(job)
            except Exception as error:
                self._fail(job, error)
        return True

    def _start(self, job: Job) -> None:
        if job.answer.cancelled():
            return
        submit, alternatives = self.engine.submit, self.engine.submit_alternatives
        for place, (asked, ids, search, _, ways, _) in enumerate(job.texts):
            if ways:
                i = alternatives(asked.text, asked.prefix, ways, search, job.owner)
            else:
                i = submit(search=search, ids=ids, owner=job.owner, **asked._asdict())
            job.ids.append(i)
            self._places[i] = job, place
        if job.watch:
            self._watched.add(job)

    def _drop(self, job: Job) -> None:
        self._watched.discard(job)
        self.engine.cancel(*[i for i in job.ids if self._places.pop(i, None)])

    def _fail(self, job: Job, error: Exception) -> None:
        """Answer a job with an error, which is logged if nobody waits for the answer."""
        try:
            self._drop(job)
        except Exception as another:
            log_mistake(another)
        if job.answer.done():
            log_mistake(error)
        self._tell([(job.answer, error)])

    def _advance(self) -> None:
        try:
            self._step()
        except GivenUp as error:
            for job in {self._places[i][0] for i in error.ids if i in self._places}:
                self._fail(job, error)
        except Exception as error:  # such as one for lack of memory: the engine has dropped all
            for job in {job for job, _ in self._places.values()}:
                self._fail(job, error)

    def _step(self) -> None:
        complete: list[tuple[asyncio.Future[Any], Any]] = []
        answered: Counter[Job] = Counter()  # pieces of jobs that are not complete
        # Of jobs that could not be dropped, answers still come.
        answers = [(i, found) for i, found in self.engine.step() if i in self._places]
        for i, found in answers:
            job, place = self._places[i]
            job.found[place] = found
            if len(job.found) < len(job.texts):
                if not job.texts[place].linked:
                    answered[job] += job.texts[place].pieces
                continue
            self._watched.discard(job)
            answered.pop(job, None)
            if any(text.linked for text in job.texts):
                self._aligning.append((job, slices(job)))
            else:
                complete.append((job.answer, job.results()))
        if complete or answered:
            self._tell(complete, answered)
        for i, _ in answers:  # not before: an error is told to all jobs that have places
            del self._places[i]
        if self._watched and (began := time.monotonic()) >= self._looks:
            for job in self._watched:
                so_far = [self._so_far(job, place) for place in range(len(job.texts))]
                assert job.watch is not None
                self._loop.call_soon_threadsafe(job.watch, so_far)
            took = time.monotonic() - began
            self._looks = began + max(WATCHED, 20 * took)  # of many long texts, it takes long

    def _align(self) -> None:
        """Align some translations of the job whose turn it is. This takes as long as several steps,
        and the engine then has as much time.
        """
        job, remaining = self._aligning.popleft()
        began = time.monotonic()
        try:
            if not job.answer.done():
                if places := next(remaining, None):
                    self._align_places(job, places)
                    self._aligning.append((job, remaining))
                else:
                    self._tell([(job.answer, job.results())])
        except Exception as error:
            self._fail(job, error)
        if isinstance(self.sentences, Workers):
            self.sentences.wake()  # they go on meanwhile
        else:
            self._aligns = 2 * time.monotonic() - began

    def _align_places(self, job: Job, places: list[Place]) -> None:
        pairs = [(job.texts[i].asked.text, translation.text) for i, _, translation in places]
        with warnings.catch_warnings():  # of pairs that cannot be aligned: these have no links
            warnings.simplefilter("ignore")
            alignments = list(self.translator.alignments(pairs))
        for (i, rank, translation), alignment in zip(places, alignments, strict=True):
            found = job.found[i]
            assert found
            found[rank] = translation._replace(alignment=alignment)

    def _so_far(self, job: Job, place: int) -> str:
        if place not in job.found:
            return self.engine.best_so_far(job.ids[place])
        found = job.found[place]
        return found[0].text if found else ""

    def _tell(
        self,
        answers: Sequence[tuple["asyncio.Future[Any]", Any]],
        answered: Mapping[Job, int] | None = None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._hear, answers, answered or {})

    def _hear(
        self,
        answers: Sequence[tuple["asyncio.Future[Any]", Any]],
        answered: Mapping[Job, int],
    ) -> None:
        """Take answers from the engine's thread, and the pieces that it has answered in others."""
        for job, pieces in answered.items():
            self.waiting.answer(job.owner, pieces)
        settle(answers)


def settle(answers: Sequence[tuple["asyncio.Future[Any]", Any]]) -> None:
    """Give results, or errors, to those who still wait for them."""
    for future, result in answers:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
