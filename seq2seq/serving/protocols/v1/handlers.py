"""The project's own protocol, which shows everything a model knows about a translation."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from seq2seq.decoding.constraints.placeholders import MAX_CHARACTERS
from seq2seq.serving.errors import HTTPError
from seq2seq.serving.event_loop import run_off_loop
from seq2seq.serving.languages import english_name
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.service import Routes, Service
from seq2seq.serving.texts import ClientText, split_texts, submit_texts
from seq2seq.serving.validation import Entry
from seq2seq.translation.request import Translation

PARTIAL_SECONDS = 0.05  # between checks of an unfinished translation


async def models(service: Service, request: Request) -> Any:
    """The models, and the limits on a request."""
    descriptions = [
        {
            "name": model.name,
            "source": model.source,
            "target": model.target,
            "source_name": english_name(model.source),
            "target_name": english_name(model.target),
            **({"languages": several} if (several := languages_of(model)) else {}),
            "links": model.choice is not None,
            "context": model.context,
            **model.arithmetic._asdict(),
        }
        for model in service.models.values()
    ]
    limits = dict.fromkeys(("beam_size", "alternatives"), service.limits.beam_size)
    limits["characters"] = service.limits.characters
    return {"models": descriptions, "limits": limits}


def languages_of(model: ModelWorker) -> list[dict[str, str]]:
    """The languages of a model of several, with their English names."""
    return [{"language": code, "name": english_name(code)} for code in model.languages]


async def translate(service: Service, request: Request, entry: Entry) -> Any:
    """The translations of each sentence of a text; sent as events, also the best text so far."""
    nbest, prefix, must_not = entry["nbest"], entry["prefix"], entry["must_not"]
    must = [[each] if isinstance(each, str) else each for each in entry["must"]]
    beams: Any = entry.get("beam_size", nbest)
    if beams < nbest:
        raise HTTPError(400, f"nbest={nbest} needs beam_size={nbest} or more, or no beam_size")
    length = sum(map(len, chain(must_not, *must)))
    if length > MAX_CHARACTERS:
        limit = f"at most {MAX_CHARACTERS:,} are allowed together"
        raise HTTPError(413, f"must and must_not have {length:,} characters; {limit}")
    wishes = {"must": must, "must_not": must_not, "terms": entry["glossary"]}
    split = None if entry["split"] else "none"
    text = await split_text(service, entry, nbest, split=split, **wishes)
    if len(text.sentences) != 1 and (prefix or must):
        raise HTTPError(400, "prefix and must need a text of one sentence, or split=false")
    options = {"ranks": nbest, "beams": beams, "seconds": entry.get("deadline")}
    write = partial(to_json, ranks=nbest, is_linked=entry["links"])
    answer = await submit_texts(service, request, [text], write, **options)
    if "text/event-stream" in request.headers.get("accept", ""):
        events = send_events(text, asyncio.ensure_future(answer))
        return StreamingResponse(events, media_type="text/event-stream")
    return Response(await answer, media_type="application/json")


async def alternatives(service: Service, request: Request, entry: Entry) -> Any:
    """The ways to continue a translation after its beginning."""
    count = entry["count"]
    text = await split_text(service, entry, count, split="none", alternatives=count)
    if not text.sentences:
        raise HTTPError(400, "the text is empty: send a sentence")
    write = partial(to_json, ranks=count, is_linked=entry["links"])
    options = {"ranks": count, "seconds": entry.get("deadline")}
    answer = await submit_texts(service, request, [text], write, **options)
    return Response(await answer, media_type="application/json")


async def split_text(service: Service, entry: Entry, links: int, **wishes: Any) -> ClientText:
    """The text of a request; arguments and errors as for `split_texts`.

    Args:
        links: Number of translations of each sentence whose words are linked if the client asks.
    """
    service.check_length(entry["prefix"])
    wishes |= {"name": entry["model"], "prefix": entry["prefix"], "context": entry["context"]}
    languages = entry["source"], entry["target"]
    (text,) = await split_texts(service, [entry["text"]], *languages, **wishes)
    for sentence in text.sentences:
        sentence.links = links if entry["links"] else 0
    if entry["links"] and text.model.choice is None:
        raise HTTPError(400, f"model {text.model.name!r} cannot link words: leave links out")
    return text


async def send_events(text: ClientText, answer: "asyncio.Future[str]") -> AsyncIterator[str]:
    """Server-sent events: the best translation so far whenever it has changed, and at the end the
    answer.
    """
    sent, wait = "", PARTIAL_SECONDS
    join = partial(text.document.join, target=text.offer.target)
    try:
        while not (await asyncio.wait((answer,), timeout=wait))[0]:
            began_at = time.monotonic()
            looking = text.model.best_so_far(text.sentences)
            await asyncio.wait((answer, looking), return_when=asyncio.FIRST_COMPLETED)
            if looking.done():
                best = await run_off_loop(text.size, join, looking.result())
                if best != sent:
                    sent = best
                    yield format_event("partial", json.dumps({"text": sent}, ensure_ascii=False))
            # Checking may take at most a tenth of the time, which it takes from other clients.
            wait = max(PARTIAL_SECONDS, 10 * (time.monotonic() - began_at))
        yield format_event("done", answer.result())
    except ClientDisconnect:
        return
    except Exception as exception:
        error = HTTPError.from_exception(exception)
        data = {"error": str(error), "status": error.status}
        yield format_event("error", json.dumps(data, ensure_ascii=False))
    finally:
        answer.cancel()


def format_event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"


def to_json(texts: Sequence[ClientText], ranks: int, is_linked: bool) -> str:
    """The answer for a single text, in JSON: all sentences with their translations. Each sentence
    is encoded separately, since other threads cannot run while a value is encoded.
    """
    (text,) = texts
    answer: Entry = {"model": text.model.name}
    answer |= {"source": text.offer.source, "target": text.offer.target}
    answer["text"] = text.translation()
    if text.detected:
        name = english_name(text.detected.language)
        answer["detected"] = text.detected._asdict() | {"name": name}
    if text.problems:
        answer["problems"] = text.problems
    write = partial(json.dumps, ensure_ascii=False, allow_nan=False)
    sentences = [
        write(sentence_json(text, sentence.text, translations[:ranks], is_linked))
        for sentence, translations in zip(text.sentences, text.translations(), strict=True)
    ]
    return f'{write(answer)[:-1]}, "sentences": [{", ".join(sentences)}]}}'


def sentence_json(text: ClientText, source: str, best: list[Translation], is_linked: bool) -> Any:
    """A sentence with its translations, and with the links between their words."""
    model = text.model
    entries = [each.to_json(model.labels) for each in best]
    sentence = {"source": source, "translations": entries}
    if is_linked and model.choice:
        for entry, alignment in zip(entries, (each.alignment for each in best), strict=True):
            # Texts that cannot be aligned, such as very long ones, have no links.
            source_words, words = (alignment.source, alignment.target) if alignment else ([], [])
            sentence["source_words"] = [word._asdict() for word in source_words]
            entry["words"] = [word._asdict() for word in words]
            entry["links"] = sorted(alignment.links(model.choice)) if alignment else []
    return sentence


ROUTES: Routes = {
    "POST /v1/translate": translate,
    "POST /v1/alternatives": alternatives,
    "GET /v1/models": models,
}
