"""The service: its models, limits and keys, and how models are loaded, found and drained."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from seq2seq.base.errors import ConfigError, format_count
from seq2seq.serving.auth import read_keys
from seq2seq.serving.document_turns import DocumentTurns
from seq2seq.serving.errors import HTTPError, log
from seq2seq.serving.event_loop import Lag
from seq2seq.serving.languages import check_detector
from seq2seq.serving.model_worker import ModelWorker, Offer
from seq2seq.serving.storage import Storage
from seq2seq.serving.validation import AUTO, Limits
from seq2seq.text.documents.sentences import LIBRARY_ADVICE, lacks_library
from seq2seq.text.languages import likeness, read_language

# Handlers by method and path. A handler gets the service, the request and, if the description names
# any, the fields of the request. It returns a response, or a value to be sent as JSON.
Routes = dict[str, Callable[..., Awaitable[Any]]]


@dataclass(eq=False)
class Service:
    """The models by name, the limits, and the keys of clients.

    Args:
        builders: Functions that load the models, by name.
        limits: Limits on the requests of clients.
        keys: Keys, one of which every client must send; None = no key is needed.
        keys_file: File from which every load but the first reads the keys again.
        storage: Records that are kept for clients; None = nothing is kept.

    Attributes:
        models: Models in the order of the builders; empty until they are loaded.
        draining: True if new requests are refused.
        characters: Number of characters translated since the start.
        documents: Documents being translated.
        lag: Delays of the event loop.
        body_bytes: Argument `used` of each `Body`.
    """

    builders: Mapping[str, Callable[[], ModelWorker]]
    limits: Limits = field(default_factory=Limits)
    keys: Sequence[bytes] | None = None
    keys_file: Path | None = None
    storage: Storage | None = None

    def __post_init__(self) -> None:
        self.models: dict[str, ModelWorker] = {}
        self.draining = False
        self.characters = 0
        self.documents = DocumentTurns()
        self.lag = Lag()
        self.body_bytes = [0, 0]
        self._loading = asyncio.Lock()

    async def load(self) -> None:
        """Load all models and replace the old ones, which still answer what they have accepted.

        Raises: Seq2SeqError if a model cannot be loaded; then no model has changed.
        """
        async with self._loading:
            if self.models and self.keys_file:
                try:
                    self.keys = read_keys(self.keys_file)
                except (OSError, ConfigError) as error:
                    log.error("cannot read the keys again, so the old ones stay in use: %s", error)
            loaded = await self._build_models()
            if any(map(lacks_library, sources_of(loaded.values()))):
                log.warning(LIBRARY_ADVICE)
            replaced, self.models = self.models, loaded
            for model in loaded.values():
                model.thread.start()
                pair = model.described.replace(" to ", "-")
                log.info("ready: %s (%s), %s", model.name, pair, model.arithmetic)
        await asyncio.gather(*(model.close() for model in replaced.values()))
        # Let later collections skip the objects that stay: visiting them all takes a fifth of a
        # second, during which nobody is answered.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        # Make full collections rare: each visits the thousands of translations of a large request.
        gc.set_threshold(*gc.get_threshold()[:2], 1000)

    async def _build_models(self) -> dict[str, ModelWorker]:
        """Load all models; if one fails, close the others."""
        loaded: dict[str, ModelWorker] = {}
        try:
            for name, build in self.builders.items():
                loaded[name] = await asyncio.to_thread(build)
            await asyncio.to_thread(check_detector, sources_of(loaded.values()))
        except BaseException:
            await asyncio.gather(*(model.close() for model in loaded.values()))
            raise
        return loaded

    async def drain(self) -> None:
        """Answer what was accepted, and refuse new requests. Documents that are not finished within
        `limits.grace` seconds end with an error.
        """
        self.draining, grace = True, self.limits.grace
        count, rest = len(self.documents.tasks), "accepted texts are answered, new ones are refused"
        what = f"{format_count(count, 'document')} in progress, which may take {grace:g} s"
        log.info("draining: %s (--grace); %s", what, rest)
        if late := await self.documents.finish(grace):
            log.warning("%s not finished: ended with an error", format_count(late, "document"))
        await asyncio.gather(*(model.close() for model in self.models.values()))

    def find_storage(self) -> Storage:
        """The storage. Raises: ConfigError if this server keeps nothing."""
        if self.storage is None:
            raise ConfigError(
                "this server keeps nothing for its clients; to keep glossaries, suggestions and "
                "documents, start it with --keep-in FOLDER"
            )
        return self.storage

    def check_length(self, *texts: str) -> None:
        """Check the length of texts. Raises: HTTPError if they are too long together."""
        length, limit = sum(map(len, texts)), self.limits.characters
        if length > limit:
            raise HTTPError(413, f"{length:,} characters; at most {limit:,} are translated at once")

    def find_models(self, source: str = AUTO, target: str = "", name: str = "") -> list[Offer]:
        """The models for a pair of languages, those for exactly these variants first. The same
        language in another script does not count.

        Args:
            source: Language, or `auto`.
            target: Language; empty = any, for a model of several languages its default.
            name: Name of the model; empty = any.

        Raises: HTTPError if there is no such model, or no requests are accepted now.
        """
        models = self.open_models()

        def fit(offer: Offer) -> int:
            fits = 1 if source == AUTO else likeness(source, offer.source)
            return fits * (likeness(target, offer.target) if target else 1)

        named = [model for model in models if name in ("", model.name)]
        offers = (offer for model in named for offer in model.offers(source, target))
        matching = sorted(offers, key=fit, reverse=True)
        if not matching:
            known = ", ".join(f"{m.described} ({m.name})" for m in named or models)
            pair = f"{source[:20]!r} to {target[:20] or 'no language'!r}"
            what = pair if named else f"model {name[:50]!r}"
            raise HTTPError(400, f"{what} is not supported. Supported: {known}")
        for wanted, offered in ((source, matching[0].source), (target, matching[0].target)):
            if read_language(wanted).is_known and likeness(wanted, offered) == 1:
                log_variant(read_language(wanted).tag, offered)
        return matching

    def language_pairs(self) -> list[tuple[str, str]]:
        """The pairs of source and target languages, in the order of the models, without
        duplicates.
        """
        return list(dict.fromkeys(pair for model in self.models.values() for pair in model.pairs))

    def open_models(self) -> list[ModelWorker]:
        """All models. Raises: HTTPError if no requests are accepted now."""
        if self.draining:
            headers = {"retry-after": "5", "connection": "close"}
            raise HTTPError(503, "the server is about to stop", headers)
        models = list(self.models.values())
        if not models:
            raise HTTPError(503, "the models are being loaded", {"retry-after": "5"})
        return models


def sources_of(models: Iterable[ModelWorker]) -> list[str]:
    """The languages that models translate from, without duplicates."""
    return list(dict.fromkeys(source for model in models for source in model.sources))


@lru_cache(maxsize=256)  # log each pair once
def log_variant(wanted: str, offered: str) -> None:
    log.info("%s is answered by the model for %s", wanted, offered)
