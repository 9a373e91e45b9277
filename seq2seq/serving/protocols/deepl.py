"""The protocol of DeepL, which translation tools and office programs speak."""

from typing import Any

from starlette.requests import Request

from seq2seq.documents.document import Split
from seq2seq.documents.html_markup import read_html
from seq2seq.serving.languages import english_name
from seq2seq.serving.service import Service
from seq2seq.serving.validation import validate

NO_LIMIT = 10**12  # characters
SIDES = ["source", "target"]
SPLITS: dict[str, Split | None] = {"0": "none", "1": None, "nonewlines": "sentences"}


async def translate(service: Service, request: Request, entry: dict[str, Any]) -> Any:
    """Translate texts. Wishes that are no more than preferences change nothing."""
    texts = service.split(
        entry["text"],
        entry["source_lang"],
        entry["target_lang"],
        read=read_html if "tag_handling" in entry else None,
        split=SPLITS[entry["split_sentences"]],
    )
    await service.submit(texts, request)
    translations: list[dict[str, Any]] = [
        {"detected_source_language": text.model.source.upper(), "text": text.translation()}
        for text in texts
    ]
    if entry["show_billed_characters"]:
        for translation, original in zip(translations, entry["text"], strict=True):
            translation["billed_characters"] = len(original)
    return {"translations": translations}


async def languages(service: Service, request: Request, entry: dict[str, Any]) -> Any:
    """The languages of one side, which the query names, or a form: even with GET, as DeepL's own
    client for Python sends it.
    """
    side = request.query_params.get("type", entry["type"])
    validate(side, {"type": "string", "enum": SIDES}, "type")
    codes = dict.fromkeys(getattr(model, side) for model in service.models.values())
    more = {"supports_formality": False} if side == "target" else {}
    return [{"language": code.upper(), "name": english_name(code)} | more for code in codes]


async def usage(service: Service, request: Request) -> Any:
    """Characters translated since the start; there is no limit."""
    return {"character_count": service.characters, "character_limit": NO_LIMIT}
