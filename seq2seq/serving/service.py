"""What all protocols share: models, limits, and the way of a text to its translations."""

import asyncio
import gc
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.types import Receive

from seq2seq.constraints.request import TextRequest
from seq2seq.documents.document import Split
from seq2seq.documents.sentences import BETTER, has_better
from seq2seq.errors import ConfigError, Seq2SeqError
from seq2seq.languages import language_code
from seq2seq.serving.auth import header_key, read_keys
from seq2seq.serving.errors import ClientDisconnected, HTTPError
from seq2seq.serving.jobs import Found, Text
from seq2seq.serving.languages import NO_DETECTOR, Detected, detect, load_detector, name_of
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.texts import Cut, cut
from seq2seq.symbols import EOS
from seq2seq.text_engine import Translation
from seq2seq.translator import DIVERGED

Result = TypeVar("Result")

SMALL = 512  # pieces of a request that is tried, however slow others were, if it is alone

log = logging.getLogger("seq2seq.serving")


@dataclass(frozen=True)
class Limits:
    """Maximums.

    Attributes:
        queue: pieces of all texts that a model has accepted and not answered; of one client, half
            of it counts at most. By default, this half has room for a text of as many characters
            as are allowed.
        characters: of all texts of a request.
        beam_size: beams, and alternatives.
        body: bytes.
        patience: seconds until a body must be there.
        deadline: seconds until an answer, unless the client says it.
        connections: that are kept, and requests that are answered at once.
    """

    queue: int = 40_960
    deadline: float = 30.0
    characters: int = 20_000
    beam_size: int = 10
    body: int = 2**20
    patience: float = 10.0
    connections: int = 512


class Task(NamedTuple):
    """A text of a request: the model for it, its sentences, and its language if it was detected."""

    model: ModelWorker
    cut: Cut
    detected: Detected | None

    def whole(self, found: Sequence[list[Translation]], rank: int = 0) -> str:
        """The text of the translations of a rank, or of the last one if a sentence has fewer."""
        return self.cut.join([each[min(rank, len(each) - 1)].text for each in found])

    def others(self, found: Sequence[list[Translation]], count: int) -> list[str]:
        """The texts of the next ranks, at most `count`, each only once."""
        ranks = range(1, min(count + 1, max(map(len, found), default=0)))
        return list(dict.fromkeys(self.whole(found, rank) for rank in ranks))


class Service:
    """Models by name, and who may ask them what.

    Args:
        builders: for each name, what loads the model.
        keys: one of which every client must send; None = nobody needs any.
        keys_file: from which they are read again by each load but the first.

    Attributes:
        models: in the order of the builders; none while they are loaded.
        draining: is what comes now turned away?
        characters: translated since the start.
    """

    def __init__(
        self,
        builders: Mapping[str, Callable[[], ModelWorker]],
        limits: Limits | None = None,
        keys: Sequence[bytes] | None = None,
        keys_file: Path | None = None,
    ):
        self.builders, self.limits = builders, limits or Limits()
        self.keys, self.keys_file = keys, keys_file
        self.models: dict[str, ModelWorker] = {}
        self.draining = False
        self.characters = 0
        self._loading = asyncio.Lock()

    async def load(self) -> None:
        """Load all models, and then put them in the place of those that are there, which answer
        what they have accepted. Raises: Seq2SeqError, and then no model has changed.
        """
        async with self._loading:
            if self.models:
                self._read_keys()
            loaded: dict[str, ModelWorker] = {}
            try:
                for name, build in self.builders.items():
                    loaded[name] = await asyncio.to_thread(build)
                sources = {model.source for model in loaded.values()}
                if await asyncio.to_thread(load_detector) is None and len(sources) > 1:
                    raise ConfigError(NO_DETECTOR)
            except BaseException:
                for model in loaded.values():
                    await model.close()
                raise
            if any(has_better(model.source) for model in loaded.values()):
                log.warning(BETTER)
            for model in loaded.values():
                model.start()
            replaced, self.models = self.models, loaded
        for model in loaded.values():
            pair = f"{model.source}-{model.target}"
            log.info("ready: %s (%s), %s", model.name, pair, model.arithmetic)
        for model in replaced.values():
            await model.close()
        # Later collections skip what stays: looking at it all takes a fifth of a second, in which
        # nobody is answered.
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    def _read_keys(self) -> None:
        if self.keys_file:
            try:
                self.keys = read_keys(self.keys_file)
            except (OSError, ConfigError) as error:
                log.error("keys not read again, so they are as they were: %s", error)

    async def drain(self) -> None:
        """Answer what was accepted, and nothing else."""
        self.draining = True
        await asyncio.gather(*(model.close() for model in self.models.values()))

    def client_of(self, request: Request, key: str = "") -> str:
        """Whose request this is: a key, in the header or else the given one; or the address if none
        is needed.
        """
        if self.keys is not None:
            return header_key(request) or key.strip()
        host, _ = request.scope.get("client") or ("", 0)
        return str(host)

    def ready(self) -> list[ModelWorker]:
        """The models. Raises: Refusal if no request is accepted now."""
        if self.draining:
            headers = {"retry-after": "5", "connection": "close"}
            raise HTTPError(503, "the server is about to stop", headers)
        if not self.models:
            raise HTTPError(503, "the models are being loaded", {"retry-after": "5"})
        return list(self.models.values())

    def tasks(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        *,
        name: str = "",
        html: bool = False,
        split: Split | None = None,
    ) -> list[Task]:
        """What is to be done for some texts: for each, the first model that has its languages.

        Args:
            source: a language, or `auto`.
            target: a language; empty = any.
            name: of the model; empty = any.
            html, split: as in `cut`.

        Raises: Refusal if there is no such model, for too many characters, and for a text in a
            language of no model, unless the model is named; ConfigError if a language cannot be
            detected.
        """
        models = self.ready()
        self.check_length(texts)
        source_code, target_code = language_code(source), language_code(target)
        fit = [
            model
            for model in models
            if name in ("", model.name)
            and target_code in ("", model.target)
            and source_code in ("auto", model.source)
        ]
        if not fit:
            known = ", ".join(f"{m.source} to {m.target} ({m.name})" for m in models)
            what = f"model {name[:50]!r}" if name else f"{source[:20]!r} to {target[:20]!r}"
            raise HTTPError(400, f"{what} is not supported. Supported: {known}")
        tasks: list[Task] = []
        for text in texts:
            found = None
            if source_code == "auto":
                found = detect(text, [model.source for model in fit], html=html)
            model = next((m for m in fit if not found or m.source == found.language), fit[0])
            if found and found.language != model.source and not name:
                supported = ", ".join(dict.fromkeys(m.source for m in fit))
                raise HTTPError(
                    400,
                    f"text {len(tasks) + 1} seems to be {name_of(found.language)}, from which "
                    f"nothing is translated here. Supported: {supported}. If it is one of these, "
                    "name the source language instead of auto",
                )
            if not model.alive:
                raise model.ended()
            parts = cut(text, model.source, model.target, html=html, split=split)
            tasks.append(Task(model, parts, found))
        return tasks

    def check_length(self, texts: Sequence[str]) -> None:
        """Raises: Refusal for too many characters."""
        if (length := sum(map(len, texts))) > (most := self.limits.characters):
            raise HTTPError(413, f"{length:,} characters; at most {most:,} are translated at once")

    def submit(
        self,
        tasks: Sequence[Task],
        asked: TextRequest = TextRequest(""),  # noqa: B008
        *,
        beams: int = 1,
        ways: int = 0,
        watch: Callable[[list[str]], None] | None = None,
        linked: int = 0,
        client: str = "",
        seconds: float | None = None,
    ) -> "asyncio.Future[list[list[Found]]]":
        """Accept a request.

        Args:
            tasks: its texts.
            asked: what the translations of all sentences must be like.
            beams: of the search, at least.
            ways: as in `Text`.
            watch: is told the best translations so far of all sentences, if they have one model.
            linked: translations of each sentence whose words are linked.
            client: of `client_of`.
            seconds: until the answer must be there; None = as for all.

        Returns: for `answer`.
        Raises: Refusal if there is no room, or too little time.
        """
        texts: dict[ModelWorker, list[Text]] = {}
        for model, (sentences, _), _ in tasks:
            of_model = texts.setdefault(model, [])
            for sentence, ids in zip(sentences, model.codec.encode(sentences), strict=True):
                asked_of = asked._replace(text=sentence)
                of_model.append(model.text(asked_of, ids, beams, ways, linked))
        for model in texts:
            pieces = sum(text.pieces for text in texts[model])
            self._check_room(model, client, pieces, seconds or self.limits.deadline)
        self.characters += sum(len(each) for task in tasks for each in task.cut.sentences)
        future = asyncio.gather(*(model.submit(texts[model], watch, client) for model in texts))
        future.add_done_callback(retrieve_error)
        return future

    def _check_room(self, model: ModelWorker, client: str, pieces: int, seconds: float) -> None:
        """Raises: Refusal if a model has no room for a request, or cannot answer it in time."""
        if reason := model.waiting.refuses(client, pieces, self.limits.queue):
            raise HTTPError(429, reason, {"retry-after": str(max(1, math.ceil(model.age)))})
        needed = model.seconds(client, pieces)
        if needed > seconds and (model.pieces or pieces > SMALL):
            raise HTTPError(
                429,
                f"this takes about {needed:.0f} seconds, and should take {seconds:g} at most: give "
                "it in smaller parts, allow more time (deadline), or try again later",
                {"retry-after": str(math.ceil(needed - seconds))},
            )

    async def answer(
        self,
        tasks: Sequence[Task],
        future: "asyncio.Future[list[list[Found]]]",
        receive: Receive,
        seconds: float | None = None,
    ) -> list[list[list[Translation]]]:
        """Wait for what `submit` returned: of each task, of each sentence, the translations.

        Raises: Gone, Refusal if the time is over, and whatever the engine raised.
        """
        found = await result_or_timeout(future, receive, seconds or self.limits.deadline)
        models = dict.fromkeys(task.model for task in tasks)
        of_model = {model: iter(each) for model, each in zip(models, found, strict=True)}
        return [
            [translations(next(of_model[task.model])) for _ in task.cut.sentences] for task in tasks
        ]


async def result_or_timeout(
    future: "asyncio.Future[Result]", receive: Receive, seconds: float
) -> Result:
    """The result of a future, which is cancelled when the client goes or the time is over.

    Raises: Gone or Refusal then, and whatever the future raises.
    """
    gone = asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        await asyncio.wait((future, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
        raise (
            ClientDisconnected
            if gone.done()
            else HTTPError(504, f"not translated within {seconds:g} seconds")
        )
    finally:
        gone.cancel()
        future.cancel()


def retrieve_error(future: "asyncio.Future[Any]") -> None:
    """Of errors after the client has gone, nobody needs to be told."""
    if not future.cancelled():
        future.exception()


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def translations(found: Found) -> list[Translation]:
    """At least one: what is only marks that are no text has an empty one.

    Raises: Seq2SeqError if the model has none.
    """
    if found is None:
        raise Seq2SeqError(f"there is no translation of finite probability: {DIVERGED}")
    return found or [Translation("", 0.0, [EOS], (0.0,))]
