"""The protocol of LibreTranslate, which Weblate, Open WebUI and many others speak."""

from typing import Any

from starlette.requests import Request

from seq2seq.serving.languages import Detected, detect, name_of
from seq2seq.serving.service import Service


async def translate(service: Service, request: Request, entry: dict[str, Any]) -> Any:
    """Translate one text or several."""
    single = isinstance(entry["q"], str)
    texts: list[str] = [entry["q"]] if single else entry["q"]
    others, html = entry["alternatives"], entry["format"] == "html"
    tasks = service.tasks(texts, entry["source"], entry["target"], html=html)
    client = service.client_of(request, entry.get("api_key") or "")
    beams = min(others + 1, service.limits.beam_size)
    future = service.submit(tasks, beams=beams, client=client)
    found = await service.answer(tasks, future, request.receive)
    each = list(zip(tasks, found, strict=True))
    answer: dict[str, Any] = {"translatedText": [task.whole(sentences) for task, sentences in each]}
    if others:
        answer["alternatives"] = [task.others(sentences, others) for task, sentences in each]
    if entry["source"] == "auto":
        answer["detectedLanguage"] = [language_entry(task.detected) for task in tasks]
    return {name: values[0] for name, values in answer.items()} if single else answer


def language_entry(detected: Detected | None) -> dict[str, Any]:
    assert detected is not None
    return {"language": detected.language, "confidence": round(100 * detected.confidence)}


async def find_language(service: Service, request: Request, entry: dict[str, Any]) -> Any:
    """The language of a text: if it is clear, also one that nothing is translated from."""
    service.check_length([entry["q"]])
    return [language_entry(detect(entry["q"], [model.source for model in service.ready()]))]


async def languages(service: Service, request: Request) -> Any:
    """The source languages, and what each is translated to."""
    targets: dict[str, dict[str, None]] = {}
    for model in service.models.values():
        targets.setdefault(model.source, {})[model.target] = None
    return [
        {"code": code, "name": name_of(code), "targets": list(to)} for code, to in targets.items()
    ]


async def settings(service: Service, request: Request) -> Any:
    """What a client may ask for."""
    sides = [(model.source, model.target) for model in service.models.values()][:1]
    codes = dict(zip(("source", "target"), *sides, strict=False)) if sides else {}
    return {
        "keyRequired": service.keys is not None,
        "charLimit": service.limits.characters,
        "filesTranslation": False,
        "suggestions": False,
        "supportedFilesFormat": [],
        "language": {side: {"code": c, "name": name_of(c)} for side, c in codes.items()},
    }
