"""Bodies of requests: read with patience, and checked against openapi.yaml, which so is true."""

import asyncio
import json
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import yaml  # type: ignore[import-untyped]
from starlette.requests import Request

from seq2seq.serving.errors import HTTPError

DESCRIPTION = Path(__file__).parent / "openapi.yaml"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@cache
def load_description() -> Any:
    return yaml.safe_load(DESCRIPTION.read_text(encoding="utf-8"))


def resolve_reference(schema: Any) -> Any:
    """A schema, or the one that it refers to."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return load_description()["components"]["schemas"][name] if name else schema


def takes_entry(path: str, method: str) -> bool:
    """Does a body come with the requests of a path?"""
    return "requestBody" in load_description()["paths"].get(path, {}).get(method.lower(), {})


async def read_entry(request: Request, method: str, maximum: int, seconds: float) -> dict[str, Any]:
    """The body of a request, with defaults for what it does not say.

    Raises: Refusal unless it is as described for the path; if it is too long or too slow.
    """
    body = await read_body(request, maximum, seconds)
    expected = load_description()["paths"][request.scope["path"]][method.lower()]["requestBody"]
    described = expected["content"]
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if not body and not expected["required"]:
        kind = FORM  # an empty one
    if kind not in described:
        raise HTTPError(415, f"{kind[:80]!r} is not read here. Supported: {', '.join(described)}")
    schema = resolve_reference(described[kind]["schema"])
    try:
        text = body.decode("utf-8")
        if kind == JSON:
            entry = json.loads(text)
        else:
            fields = parse_qs(text, True, errors="strict", max_num_fields=200)
            known = schema["properties"]
            entry = {name: of_form(each, known.get(name, {})) for name, each in fields.items()}
    except UnicodeDecodeError as error:
        raise HTTPError(400, f"the body is not UTF-8: {error.reason}") from None
    except (ValueError, RecursionError) as error:
        raise HTTPError(400, f"the body cannot be read as {kind}: {error}") from None
    checked_entry: dict[str, Any] = validate(entry, schema, "the body")
    return checked_entry


async def read_body(request: Request, maximum: int, seconds: float) -> bytes:
    """A body. One that is too long is read to its end, so that the client comes to read the answer,
    but not kept.
    """
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= maximum:
                    body += chunk
    except TimeoutError:
        close = {"connection": "close"}
        raise HTTPError(408, f"the body did not come within {seconds:g} seconds", close) from None
    if size > maximum:
        raise HTTPError(413, f"the body has {size:,} bytes; at most {maximum:,} are read")
    return bytes(body)


def of_form(values: list[str], schema: Any) -> Any:
    """The value of a field of a form, by its type."""
    kind = schema.get("type")
    if kind == "array":
        return values
    if kind == "boolean" and values[-1] in ("0", "1"):
        return values[-1] == "1"
    if kind in ("integer", "number", "boolean"):
        with suppress(ValueError):
            return json.loads(values[-1])
    return values[-1]


def validate(value: Any, schema: Any, name: str) -> Any:
    """A value, with defaults for the fields that it lacks.

    Raises: Refusal if it does not fit the schema: 413 for what is too long, else 400.
    """
    options = [
        resolve_reference(option) for option in schema.get("anyOf", [resolve_reference(schema)])
    ]
    fit = [option for option in options if type(value) in KINDS[option["type"]]]
    if not fit:
        kinds = " or ".join(option["type"] for option in options)
        raise HTTPError(400, f"{name} should be of type {kinds}")
    schema = fit[0]
    if isinstance(value, dict):
        return validate_fields(value, schema)
    most = schema.get("maxItems", schema.get("maxLength"))
    if most is not None and len(value) > most:
        raise HTTPError(413, f"{name} has a length of {len(value):,}; at most {most:,} are read")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            raise HTTPError(400, f"{name} is an empty list")
        return [validate(each, schema["items"], f"each of {name}") for each in value]
    if isinstance(value, str):
        validate_text(value, schema, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema["minimum"], schema["maximum"]
        whole = schema["type"] == "integer"
        if not low <= value <= high or (whole and value != int(value)):
            raise HTTPError(400, f"{name} should be of type {schema['type']}, from {low} to {high}")
        return int(value) if whole else value
    return value


def validate_fields(entry: dict[str, Any], schema: Any) -> dict[str, Any]:
    known = schema["properties"]
    if unknown := sorted(entry.keys() - known.keys()):
        raise HTTPError(400, f"{unknown[0][:50]!r} is not supported. Supported: {', '.join(known)}")
    if missing := sorted(set(schema["required"]) - entry.keys()):
        raise HTTPError(400, f"{missing[0]} is missing")
    defaults = {name: field["default"] for name, field in known.items() if "default" in field}
    return {**defaults, **{name: validate(v, known[name], name) for name, v in entry.items()}}


def validate_text(value: str, schema: Any, name: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise HTTPError(400, f"{name} contains half of a surrogate pair") from None
    if value not in schema.get("enum", [value]):
        supported = ", ".join(schema["enum"])
        raise HTTPError(400, f"{name}={value[:50]!r} is not supported. Supported: {supported}")
    if not re.search(schema.get("pattern", ""), value):
        raise HTTPError(400, f"{name} is empty")
