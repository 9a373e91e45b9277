"""The texts of a request: splitting them into sentences, translating these, joining the results."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from starlette.requests import Request

from seq2seq.base.symbols import EOS
from seq2seq.serving.client_request import ClientRequest, wait_for_answer
from seq2seq.serving.errors import HTTPError, retrieve_error
from seq2seq.serving.event_loop import Value, run_off_loop
from seq2seq.serving.glossaries import Terms, build_glossary, require_phrases
from seq2seq.serving.languages import DetectedLanguage, detect, english_name
from seq2seq.serving.model_worker import ModelWorker, Offer, hold_open
from seq2seq.serving.service import Service
from seq2seq.serving.validation import AUTO
from seq2seq.text.documents.document import Document, Split
from seq2seq.text.documents.markup import Reader
from seq2seq.text.tokenization.directions import SHOWN
from seq2seq.translation.documents import join_translations, requests_of
from seq2seq.translation.request import Translation, TranslationRequest

EMPTY = Translation("", 0.0, [EOS], (0.0,))
USUAL_PROBLEMS = ("parts", "truncated")  # problems of sentences that are translated nevertheless


@dataclass
class ClientText:
    """A text of a client's request, and the translations of its sentences.

    Attributes:
        offer: Model that translates the text, and the languages.
        document: Text, split into sentences.
        sentences: Requests for the translation of each sentence.
        detected: Language of the text if the client did not name it; else None.
        refusal: Error if no model translates the language, so that the text is left unchanged.
    """

    offer: Offer
    document: Document
    sentences: list[TranslationRequest]
    detected: DetectedLanguage | None
    refusal: HTTPError | None = None

    @property
    def model(self) -> ModelWorker:
        """The model that translates the text."""
        return self.offer.model

    @property
    def source(self) -> str:
        """The language of the text."""
        return self.detected.language if self.refusal and self.detected else self.offer.source

    @property
    def problems(self) -> list[str]:
        """Messages about the refusal, or about problems with the translations of sentences."""
        if self.refusal:
            return [str(self.refusal)]
        return [
            problem.at(f"sentence {number:,}")
            for number, sentence in enumerate(self.sentences, start=1)
            for problem in sentence.result.problems
            if problem.kind not in USUAL_PROBLEMS
        ]

    @property
    def size(self) -> int:
        """Number of characters of the sentences."""
        return sum(len(each.text) for each in self.sentences)

    def translations(self) -> list[list[Translation]]:
        """The translations of each sentence; an empty one for a sentence without pieces."""
        return [each.result.translations or [EMPTY] for each in self.sentences]

    def translation(self, rank: int = 0) -> str:
        """The translated text, made of the translations of a rank, or of the last rank there is."""
        chosen = [each[min(rank, len(each) - 1)] for each in self.translations()]
        return join_translations(self.document, chosen, self.model.choice, self.offer.target)

    def alternatives(self, count: int) -> list[str]:
        """The translated texts of the `count` ranks after the best, without duplicates."""
        ranks = range(1, min(count + 1, max(map(len, self.translations()), default=0)))
        return list(dict.fromkeys(map(self.translation, ranks)))


async def split_texts(
    service: Service, texts: Sequence[str], *languages: str, **more: Any
) -> list[ClientText]:
    """Split texts off the event loop; arguments and errors as for `split_now`."""
    size = sum(map(len, (*texts, more.get("context", "")))) + 100 * len(more.get("terms", ()))
    with hold_open(service.models.values()):
        return await run_off_loop(size, split_now, service, texts, *languages, **more)


def split_now(
    service: Service,
    texts: Sequence[str],
    source: str,
    target: str,
    *,
    name: str = "",
    read: Reader | None = None,
    split: Split | None = None,
    terms: Terms = (),
    context: str = "",
    **wishes: Any,
) -> list[ClientText]:
    """Split texts into sentences, and choose for each text the first model that translates its
    language. If no model does, but there is one for other texts, the text gets a refusal and no
    sentences.

    Args:
        source: Language, or `auto`.
        target: Language; empty = any.
        name: Name of a model, which then translates texts in any language; empty = any model.
        read, split: Reader of tags and way to split, as for `Document.of`.
        terms: Terms with their translations.
        context: Text before each of the texts, which is not translated; a model that was trained
            with context reads its last sentences.
        wishes: Requirements on the translations, as for `requests_of`.

    Raises: HTTPError if there is no such model, the texts have too many characters, or no text is
        in a language that a model translates; ConfigError if a language cannot be detected.
    """
    service.check_length(*texts)
    models = service.find_models(source, target, name)
    glossary = cache(partial(build_glossary, terms))  # by language, as the next
    earlier = cache(partial(Document.of, context[-service.limits.characters :]))
    client_texts: list[ClientText] = []
    for text_no, text in enumerate(texts, start=1):
        offer, detected = models[0], None
        if source == AUTO:
            chosen, detected = choose_offer(models, text, html=read is not None)
            if not chosen and (offer.model.languages or not name):
                refusal = foreign_text(f"text {text_no}", detected, models)
                untouched = Document([], [], [], [text], False)
                client_texts.append(ClientText(offer, untouched, [], detected, refusal))
                continue
            offer = chosen or offer
        whole, count = offer.model.choice is not None, offer.model.context
        document = Document.of(text, offer.source, read=read, split=split, whole=whole)
        before = earlier(offer.source).sentences if count else ()
        named = {**wishes, **offer.wishes}
        sentences = [*requests_of([document], context=count, before=before, **named)]
        if terms:
            require_phrases(sentences, glossary(offer.source))
        client_texts.append(ClientText(offer, document, sentences, detected))
    refusals = [each.refusal for each in client_texts if each.refusal]
    if refusals and len(refusals) == len(texts):
        raise refusals[0]
    return client_texts


def choose_offer(
    models: Sequence[Offer], text: str, html: bool = False
) -> tuple[Offer | None, DetectedLanguage]:
    """The first model that translates the language of a text, None if there is none; and the
    language. Arguments and errors as for `detect`.
    """
    detected = detect(text, [each.source for each in models], html=html)
    named = (each for each in models if each.source == detected.language)
    return next((each for each in named if not each.is_copy), None), detected


def foreign_text(what: str, detected: DetectedLanguage, models: Sequence[Offer]) -> HTTPError:
    """The error for a text in a language from which none of the models translates."""
    sources = [*dict.fromkeys(each.source for each in models if not each.is_copy)]
    supported = ", ".join(sources[:SHOWN]) + ", ..." * (len(sources) > SHOWN)
    return HTTPError(
        400,
        f"{what} seems to be {english_name(detected.language)}, which this server does not "
        f"translate. Supported: {supported}. If it is one of these, name the source language "
        "instead of auto",
    )


async def submit_texts(
    service: Service,
    request: Request,
    texts: Sequence[ClientText],
    write: Callable[[Sequence[ClientText]], Value],
    *,
    ranks: int = 1,
    beams: int = 1,
    seconds: float | None = None,
) -> Coroutine[Any, Any, Value]:
    """Accept a request, and start to translate its texts.

    Args:
        write: Function that makes the answer of the translated texts; called off the event loop.
        ranks: Number of translations of each sentence in the answer.
        beams: Smallest number of beams.
        seconds: Time until the client needs the answer; None = the limit of the service.

    Returns: a coroutine that returns the answer; it cancels the request if the client disconnects
        or the time is over.
    Raises: HTTPError if there is no room or too little time.
    """
    seconds = seconds or service.limits.deadline
    size = sum(text.size for text in texts)
    parts = {text.model: ClientRequest(request.state.client) for text in texts}

    def add_sentences() -> None:
        for text in texts:
            text.model.add(parts[text.model], text.sentences, beams)

    with hold_open(parts):
        await run_off_loop(size, add_sentences)
    for model, part in parts.items():
        model.check_room(part, service.limits.queue, seconds)
    service.characters += size
    request.state.parts = list(parts.values())
    translated = asyncio.gather(*(m.submit(part) for m, part in parts.items() if part.sentences))
    translated.add_done_callback(retrieve_error)

    async def answer() -> Value:
        await wait_for_answer(translated, request.receive, seconds)
        return await run_off_loop(ranks * size, write, texts)

    return answer()
