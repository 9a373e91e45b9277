"""The protocol of DeepL, which translation tools and office programs speak."""

from typing import Any

from starlette.requests import Request

from seq2seq.documents.document import Split
from seq2seq.serving.languages import name_of
from seq2seq.serving.service import Service
from seq2seq.serving.validation import validate

NO_LIMIT = 10**12  # characters
SIDES = ["source", "target"]
SPLITS: dict[str, Split | None] = {"0": "none", "1": None, "nonewlines": "sentences"}


async def translate(service: Service, request: Request, entry: dict[str, Any]) -> Any:
    """Translate texts. Wishes that are no more than preferences change nothing."""
    texts, html = entry["text"], "tag_handling" in entry
    split = SPLITS[entry["split_sentences"]]
    source, target = entry["source_lang"], entry["target_lang"]
    tasks = service.tasks(texts, source, target, html=html, split=split)
    future = service.submit(tasks, client=service.client_of(request))
    found = await service.answer(tasks, future, request.receive)
    billed = entry["show_billed_characters"]
    return {
        "translations": [
            {
                "detected_source_language": task.model.source.upper(),
                "text": task.whole(sentences),
                **({"billed_characters": len(text)} if billed else {}),
            }
            for text, task, sentences in zip(texts, tasks, found, strict=True)
        ]
    }


async def languages(service: Service, request: Request, entry: dict[str, Any]) -> Any:
    """The languages of one side, which is in the query, or in a form: of a GET, as DeepL's own
    client for Python sends it.
    """
    side = request.query_params.get("type", entry["type"])
    validate(side, {"type": "string", "enum": SIDES}, "type")
    codes = dict.fromkeys(getattr(model, side) for model in service.models.values())
    more = {"supports_formality": False} if side == "target" else {}
    return [{"language": code.upper(), "name": name_of(code), **more} for code in codes]


async def usage(service: Service, request: Request) -> Any:
    """Characters translated since the start; there is no limit."""
    return {"character_count": service.characters, "character_limit": NO_LIMIT}
