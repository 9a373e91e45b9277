"""The glossaries of DeepL's protocol: for one pair of languages (`/v2`), or for several (`/v3`).

Both are kept in the same form, so a glossary for one pair is found at both paths.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from seq2seq.serving.errors import HTTPError
from seq2seq.serving.event_loop import run_off_loop
from seq2seq.serving.glossaries import (
    Entries,
    Terms,
    check_entry_count,
    format_entries,
    parse_entries,
)
from seq2seq.serving.service import Routes, Service
from seq2seq.serving.storage import GLOSSARIES, Kind, Record
from seq2seq.serving.validation import AUTO, Entry
from seq2seq.text.languages import language_code

Dictionaries = dict[str, Entries]  # entries by pair of languages, such as `de-en`
# The JSON of a glossary, in one of the two versions of the protocol.
Description = Callable[[Record], dict[str, Any]]


async def create_glossary(
    describe: Description, service: Service, request: Request, entry: Entry
) -> Response:
    """Keep a glossary, for several pairs of languages or for the pair in `entry`."""
    dictionaries = await parse_dictionaries(service, entry.get("dictionaries", [entry]))
    keep, packed = service.find_storage().create, pack(entry["name"], dictionaries)
    record = await asyncio.to_thread(keep, GLOSSARIES, request.state.client, *packed)
    return JSONResponse(describe(record), 201)


async def list_glossaries(describe: Description, service: Service, request: Request) -> Any:
    """The client's glossaries that this version of the protocol knows, oldest first."""
    if service.storage is None:
        return {"glossaries": []}
    keep = service.storage
    records = await asyncio.to_thread(keep.list_records, GLOSSARIES, request.state.client)
    if describe is bilingual_json:
        records = [record for record in records if len(record.metadata["counts"]) == 1]
    return {"glossaries": list(map(describe, records))}


async def get_glossary(describe: Description, service: Service, request: Request) -> Any:
    """A glossary, without its entries."""
    return describe(await read_glossary(service, request))


async def get_bilingual_entries(service: Service, request: Request) -> Any:
    """The entries of a glossary for one pair of languages, as tab-separated lines."""
    record = await read_glossary(service, request)
    text = format_entries(find_dictionary(record, pair_of(bilingual_json(record))))
    return PlainTextResponse(text, media_type="text/tab-separated-values")


async def get_multilingual_entries(service: Service, request: Request, entry: Entry) -> Any:
    """The entries of a glossary for a pair of languages."""
    entries = format_entries(find_dictionary(await read_glossary(service, request), pair_of(entry)))
    return {"dictionaries": [{**entry, "entries": entries, "entries_format": "tsv"}]}


async def update_multilingual(service: Service, request: Request, entry: Entry) -> Any:
    """Rename a glossary, or add entries, which replace existing entries with the same terms."""
    added = await parse_dictionaries(service, entry["dictionaries"])

    def merge(known: Dictionaries) -> Dictionaries:
        return known | {pair: {**known.get(pair, {}), **added[pair]} for pair in added}

    return multilingual_json(await change_glossary(service, request, merge, entry.get("name")))


async def replace_dictionary(service: Service, request: Request, entry: Entry) -> Any:
    """Replace the entries of a glossary for a pair of languages."""
    new = await parse_dictionaries(service, [entry])
    record = await change_glossary(service, request, lambda known: known | new)
    return dictionary_json(record, pair_of(entry))


async def delete_dictionary(service: Service, request: Request, entry: Entry) -> Any:
    """Delete the entries of a glossary for a pair of languages."""
    pair = pair_of(entry)
    find_dictionary(await read_glossary(service, request), pair)

    def remove(known: Dictionaries) -> Dictionaries:
        return {each: entries for each, entries in known.items() if each != pair}

    await change_glossary(service, request, remove)
    return Response(status_code=204)


async def delete_glossary(service: Service, request: Request) -> Any:
    """Delete a glossary."""
    await asyncio.to_thread(service.find_storage().delete, *place_of(request))
    return Response(status_code=204)


async def read_glossary(service: Service, request: Request) -> Record:
    """The glossary named in the path of a request."""
    return await asyncio.to_thread(service.find_storage().read, *place_of(request))


async def change_glossary(
    service: Service,
    request: Request,
    change: Callable[[Dictionaries], Dictionaries],
    name: str | None = None,
) -> Record:
    """Change the dictionaries of the glossary named in the path of a request, and its name if a new
    one is given.
    """

    def repack(record: Record) -> tuple[dict[str, Any], bytes]:
        return pack(name or record.metadata["name"], change(json.loads(record.content)))

    return await asyncio.to_thread(service.find_storage().update, *place_of(request), repack)


def place_of(request: Request) -> tuple[Kind, str, str]:
    """The arguments by which the storage finds the glossary named in the path of a request."""
    return GLOSSARIES, request.state.client, request.path_params["glossary_id"]


async def language_pairs_of_glossaries(service: Service, request: Request) -> Any:
    """The pairs of languages that glossaries may have: those of the models."""
    pairs = dict.fromkeys(tuple(map(language_code, pair)) for pair in service.language_pairs())
    return {"supported_languages": [{"source_lang": a, "target_lang": b} for a, b in pairs]}


async def read_terms(service: Service, request: Request, entry: Entry) -> Terms:
    """The terms in the glossaries of a request; those of earlier glossaries take precedence.

    Raises: HTTPError if a glossary is not for the languages of the request; UnknownRecordError if
        the client has no such glossary.
    """
    ids = entry.get("glossary_ids", entry.get("glossary_id")) or []
    if ids and entry["source_lang"] == AUTO:
        raise HTTPError(400, "source_lang is missing: a glossary is for two languages")
    terms: dict[str, str] = {}
    for record_id in ids.split(",") if isinstance(ids, str) else ids:
        read, client = service.find_storage().read, request.state.client
        record = await asyncio.to_thread(read, GLOSSARIES, client, record_id)
        terms = find_dictionary(record, pair_of(entry)) | terms
    return list(terms.items())


async def parse_dictionaries(service: Service, described: list[Entry]) -> Dictionaries:
    """The dictionaries of a request. Raises: HTTPError if entries cannot be read, or no model has
    these languages.
    """
    dictionaries: Dictionaries = {}
    for each in described:
        pair = pair_of(each)
        model = service.find_models(each["source_lang"], each["target_lang"])[0]
        known = pair_of({"source_lang": model.source, "target_lang": model.target})
        if pair in dictionaries or pair != known:
            raise HTTPError(400, f"{pair}: each dictionary needs its own pair of two languages")
        entries, form = each["entries"], each["entries_format"]
        dictionaries[pair] = await run_off_loop(len(entries), parse_entries, entries, form, pair)
    return dictionaries


def pack(name: str, dictionaries: Dictionaries) -> tuple[dict[str, Any], bytes]:
    """The metadata and content of a glossary. Raises: HTTPError if it has too many entries."""
    for entries in dictionaries.values():
        check_entry_count(entries)
    counts = {pair: len(entries) for pair, entries in dictionaries.items()}
    return {"name": name, "counts": counts}, json.dumps(dictionaries, ensure_ascii=False).encode()


def find_dictionary(record: Record, pair: str) -> dict[str, str]:
    """The entries of a glossary for a pair of languages. Raises: HTTPError if there are none."""
    if pair not in record.metadata["counts"]:
        known = ", ".join(record.metadata["counts"]) or "no languages"
        raise HTTPError(404, f"glossary {record.id} is for {known}, not for {pair}")
    return dict(json.loads(record.content)[pair])


def pair_of(entry: Entry) -> str:
    return f"{language_code(entry['source_lang'])}-{language_code(entry['target_lang'])}"


def dictionary_json(record: Record, pair: str) -> dict[str, Any]:
    source, _, target = pair.partition("-")
    count = record.metadata["counts"][pair]
    return {"source_lang": source, "target_lang": target, "entry_count": count}


def multilingual_json(record: Record) -> dict[str, Any]:
    """The JSON of a glossary without its entries."""
    created_at = datetime.fromtimestamp(record.created_at, UTC)
    return {
        "glossary_id": record.id,
        "name": record.metadata["name"],
        "creation_time": created_at.isoformat(timespec="microseconds"),
        "dictionaries": [dictionary_json(record, pair) for pair in record.metadata["counts"]],
    }


def bilingual_json(record: Record) -> dict[str, Any]:
    """The JSON of a glossary for one pair of languages. Raises: HTTPError if it is for several."""
    glossary = multilingual_json(record)
    dictionaries = glossary.pop("dictionaries")
    if len(dictionaries) != 1:
        raise HTTPError(400, "this glossary is not for one pair of languages: use /v3/glossaries")
    return {**glossary, **dictionaries[0], "ready": True}


LIST, ONE = "/v2/glossaries", "/v2/glossaries/{glossary_id}"
LIST_V3, ONE_V3 = "/v3/glossaries", "/v3/glossaries/{glossary_id}"
ROUTES: Routes = {
    f"POST {LIST}": partial(create_glossary, bilingual_json),
    f"POST {LIST_V3}": partial(create_glossary, multilingual_json),
    "GET /v2/glossary-language-pairs": language_pairs_of_glossaries,
    f"GET {LIST}": partial(list_glossaries, bilingual_json),
    f"GET {ONE}": partial(get_glossary, bilingual_json),
    f"GET {ONE}/entries": get_bilingual_entries,
    f"GET {LIST_V3}": partial(list_glossaries, multilingual_json),
    f"GET {ONE_V3}": partial(get_glossary, multilingual_json),
    f"GET {ONE_V3}/entries": get_multilingual_entries,
    f"DELETE {ONE}": delete_glossary,
    f"DELETE {ONE_V3}": delete_glossary,
    f"DELETE {ONE_V3}/dictionaries": delete_dictionary,
    f"PATCH {ONE_V3}": update_multilingual,
    f"PUT {ONE_V3}/dictionaries": replace_dictionary,
}
