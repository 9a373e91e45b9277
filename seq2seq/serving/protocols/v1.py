"""Our own protocol: all that a model knows of a translation."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from itertools import chain
from typing import Any

from seq2seq.text_engine import Translation
from starlette.requests import Request
from starlette.responses import StreamingResponse

from seq2seq.alignment.choice import Alignment, Choice
from seq2seq.constraints.placeholders import MAX_CHARACTERS
from seq2seq.constraints.request import TextRequest
from seq2seq.documents.document import Split
from seq2seq.serving.errors import ClientDisconnected, HTTPError
from seq2seq.serving.languages import name_of
from seq2seq.serving.service import Service, Task
from seq2seq.symbols import EOS, NAMES


async def models(service: Service, request: Request) -> Any:
    """The models, and what can be asked of them."""
    described = [
        {
            **{"name": model.name, "source": model.source, "target": model.target},
            **{"source_name": name_of(model.source), "target_name": name_of(model.target)},
            "links": model.choice is not None,
            **model.arithmetic._asdict(),
        }
        for model in service.models.values()
    ]
    limits = service.limits
    most = {"beam_size": limits.beam_size, "alternatives": limits.beam_size}
    return {"models": described, "limits": {**most, "characters": limits.characters}}


async def translate(service: Service, request: Request, entry: dict[str, Any]) -> Any:
    """The translations of each sentence of a text; as events, the best so far as well."""
    nbest = entry["nbest"]
    beams = entry.get("beam_size", nbest)
    if beams < nbest:
        raise HTTPError(400, f"nbest={nbest} needs as many beams: beam_size={nbest}, or none")
    task = task_of(service, entry, None if entry["split"] else "none")
    asked = TextRequest("", entry["prefix"], entry["must"], entry["must_not"]).validate()
    length = sum(map(len, chain(asked.must_not, *asked.must)))
    if length > MAX_CHARACTERS:
        most = f"at most {MAX_CHARACTERS:,} are searched for at once"
        raise HTTPError(413, f"must and must_not have {length:,} characters; {most}")
    if len(task.cut.sentences) != 1 and (asked.prefix or asked.must):
        raise HTTPError(400, "prefix and must are for a text of one sentence; or add split=false")
    news = PartialResults()
    seconds = entry.get("deadline")
    future = service.submit(
        [task],
        asked,
        beams=beams,
        watch=news.come,
        linked=nbest if entry["links"] else 0,
        client=service.client_of(request),
        seconds=seconds,
    )

    async def work() -> dict[str, Any]:
        (found,) = await service.answer([task], future, request.receive, seconds)
        return translate_json(task, [each[:nbest] for each in found], entry["links"])

    if "text/event-stream" not in request.headers.get("accept", ""):
        return await work()
    working = asyncio.ensure_future(work())
    working.add_done_callback(lambda _: news.moved.set())
    return StreamingResponse(events(task, news, working), media_type="text/event-stream")


async def alternatives(service: Service, request: Request, entry: dict[str, Any]) -> Any:
    """The ways to go on after the beginning of a translation."""
    task = task_of(service, entry, "none")
    if not task.cut.sentences:
        raise HTTPError(400, "the text is empty: give a sentence")
    ways, seconds = entry["count"], entry.get("deadline")
    future = service.submit(
        [task],
        TextRequest("", entry["prefix"]),
        ways=ways,
        linked=ways if entry["links"] else 0,
        client=service.client_of(request),
        seconds=seconds,
    )
    (found,) = await service.answer([task], future, request.receive, seconds)
    return translate_json(task, found, entry["links"])


def task_of(service: Service, entry: dict[str, Any], split: Split | None) -> Task:
    text, source, target = entry["text"], entry["source"], entry["target"]
    service.check_length([entry["prefix"]])
    (task,) = service.tasks([text], source, target, name=entry["model"], split=split)
    if entry["links"] and task.model.choice is None:
        raise HTTPError(400, f"model {task.model.name!r} cannot link words: leave links out")
    return task


class PartialResults:
    """The best translations so far, and whether there is something new."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.moved = asyncio.Event()

    def come(self, texts: list[str]) -> None:
        self.texts = texts
        self.moved.set()


async def events(
    task: Task, news: PartialResults, working: "asyncio.Future[dict[str, Any]]"
) -> AsyncIterator[str]:
    """What is new, and the answer, as server-sent events."""
    told = ""
    try:
        while not working.done():
            await news.moved.wait()
            news.moved.clear()
            if news.texts and not working.done() and (text := task.cut.join(news.texts)) != told:
                told = text
                yield event("partial", {"text": text})
        yield event("done", working.result())
    except ClientDisconnected:
        return
    except Exception as error:
        refusal = HTTPError.of(error)
        yield event("error", {"error": str(refusal), "status": refusal.status})
    finally:
        working.cancel()


def event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def translate_json(task: Task, found: Sequence[list[Translation]], linked: bool) -> dict[str, Any]:
    """The answer: all sentences with their translations."""
    model = task.model
    sentences = []
    for source, several in zip(task.cut.sentences, found, strict=True):
        entry: dict[str, Any] = {"source": source}
        entry["translations"] = [
            translation_entry(translation, model.labels) for translation in several
        ]
        if linked and model.choice:
            for translation, each in zip(entry["translations"], several, strict=True):
                link(entry, translation, each.alignment, model.choice)
        sentences.append(entry)
    languages = {"source": model.source, "target": model.target}
    answer: dict[str, Any] = {"model": model.name, **languages}
    answer |= {"text": task.whole(found), "sentences": sentences}
    if task.detected:
        answer["detected"] = {**task.detected._asdict(), "name": name_of(task.detected.language)}
    return answer


def translation_entry(translation: Translation, labels: Sequence[str]) -> dict[str, Any]:
    pieces = [NAMES[EOS] if i == EOS else labels[i] for i in translation.ids]
    return {
        **{"text": translation.text, "score": translation.score},
        **{"confidence": translation.confidence, "truncated": translation.truncated},
        **({"unmet": translation.unsatisfied} if translation.unsatisfied else {}),
        "tokens": list(zip(pieces, translation.token_logp, strict=True)),
    }


def link(
    sentence: dict[str, Any],
    translation: dict[str, Any],
    alignment: Alignment | None,
    choice: Choice,
) -> None:
    """Add words and their links; none for texts that cannot be aligned, such as long ones."""
    sides = (alignment.source, alignment.target) if alignment else ([], [])
    sentence["source_words"], translation["words"] = (
        [word._asdict() for word in side] for side in sides
    )
    translation["links"] = sorted(alignment.links(choice)) if alignment else []
