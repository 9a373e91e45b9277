"""Bodies and queries of requests: read within a time limit, and validated against openapi.yaml."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import yaml  # type: ignore[import-untyped]
from python_multipart.exceptions import FormParserError
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from seq2seq.serving.errors import HTTPError

DESCRIPTION = Path(__file__).parent / "openapi.yaml"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MAX_FIELDS = 200  # of a form, and of a query


class UploadedFile(str):
    """The name of a file that a client has sent, with its content."""

    def __new__(cls, name: str, data: bytes) -> "UploadedFile":
        return super().__new__(cls, name)

    def __init__(self, name: str, data: bytes):
        self.data = data

    def rename(self, name: str) -> "UploadedFile":
        return UploadedFile(name, self.data)


TYPES: dict[str, tuple[type, ...]] = {
    "string": (str, UploadedFile),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@cache
def load_description() -> Any:
    """The content of openapi.yaml, with schemas in place of references to them, and the defaults
    of their fields.
    """
    description = yaml.safe_load(DESCRIPTION.read_text(encoding="utf-8"))  # takes 0.1 s
    return insert_schemas(description, description["components"]["schemas"])


def insert_schemas(node: Any, schemas: Any) -> Any:
    """A part of the description, with schemas in place of references to them."""
    if isinstance(node, list):
        return [insert_schemas(each, schemas) for each in node]
    if not isinstance(node, dict):
        return node
    node = schemas.get(node.get("$ref", "").rpartition("/")[2], node)
    node = {name: insert_schemas(each, schemas) for name, each in node.items()}
    if fields := node.get("properties"):
        node["defaults"] = {n: each["default"] for n, each in fields.items() if "default" in each}
    return node


def describe_body(path: str, method: str) -> Any:
    """The description of the body of a request; without one, its query as an empty form; None if
    neither is read.
    """
    operation = load_description()["paths"][path][method.lower()]
    query = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
    if "requestBody" in operation or not query:
        return operation.get("requestBody")
    required = [each["name"] for each in query if each["required"]]
    properties = {each["name"]: each["schema"] for each in query}
    schema = {"type": "object", "required": required, "properties": properties}
    return {"required": False, "content": {FORM: {"schema": schema}}}


async def read_entry(
    request: Request, description: Any, max_bytes: int, seconds: float
) -> dict[str, Any]:
    """The body of a request, with defaults for the fields that it lacks. The query of a form has
    fields, too, which take precedence.

    Args:
        description: of `describe_body`.

    Raises: HTTPError unless it is as described; if it is too long or too slow.
    """
    body = await read_body(request, max_bytes, seconds)
    content = description["content"]
    query = request.scope["query_string"]
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if not body and (query or not description["required"]):
        kind = FORM  # an empty one
    if kind not in content:
        raise HTTPError(415, f"{kind[:80]!r} is not supported. Supported: {', '.join(content)}")
    schema = content[kind]["schema"]
    try:
        if kind == JSON:
            entry = json.loads(body.decode("utf-8"))
        else:
            form = (
                await parse_multipart(request.headers, body, files="file" in schema["properties"])
                if kind == MULTIPART
                else parse_form(body.decode("utf-8"))
            )
            entry = convert_fields(form | parse_form(query.decode("latin-1")), schema)
    except UnicodeDecodeError as error:
        raise HTTPError(400, f"the body is not UTF-8: {error.reason}") from None
    except (ValueError, RecursionError) as error:
        raise HTTPError(400, f"the body cannot be read as {kind}: {error}") from None
    validated: dict[str, Any] = validate(entry, schema, "the body")
    return validated


async def read_body(request: Request, max_bytes: int, seconds: float) -> bytes:
    """The body of a request. One that is too long is read to its end, so that the client comes to
    read the answer, but not kept.
    """
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= max_bytes:
                    body += chunk
    except TimeoutError:
        message = f"the body did not arrive within {seconds:g} seconds"
        raise HTTPError(408, message, {"connection": "close"}) from None
    if size > max_bytes:
        raise HTTPError(413, f"the body has {size:,} bytes; at most {max_bytes:,} are read")
    return bytes(body)


def parse_form(text: str) -> dict[str, list[str]]:
    """The values of each field of a form. Raises: ValueError if it cannot be read."""
    return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)


async def parse_multipart(headers: Headers, body: bytes, files: bool) -> dict[str, list[str]]:
    """The values of each field of a body in parts.

    Args:
        files: may one of the parts be a file?

    Raises: ValueError if it cannot be read.
    """

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    limits = {"max_files": int(files), "max_fields": MAX_FIELDS, "max_part_size": len(body)}
    try:
        form = await MultiPartParser(headers, stream(), **limits).parse()
    except (MultiPartException, FormParserError) as error:
        raise ValueError(str(error)) from None
    fields: dict[str, list[str]] = {}
    for name, value in form.multi_items():
        if not isinstance(value, str):
            upload, value = value, UploadedFile(value.filename or "", await value.read())
            await upload.close()
        fields.setdefault(name, []).append(value)
    return fields


def convert_fields(fields: dict[str, list[str]], schema: Any) -> dict[str, Any]:
    """The fields of a form, with values of the types that their schemas name, where possible."""
    known = schema["properties"]
    return {name: parse_values(each, known.get(name, {})) for name, each in fields.items()}


def parse_values(values: list[str], schema: Any) -> Any:
    """The value of a field of a form: a list, or the last one."""
    kind, last = schema.get("type"), values[-1]
    if kind == "array":
        return values
    if kind == "boolean" and last in ("0", "1"):
        return last == "1"
    if kind in ("integer", "number", "boolean"):
        with suppress(ValueError):
            return json.loads(last)
    return last


def validate(value: Any, schema: Any, name: str) -> Any:
    """A value, with defaults for the fields that it lacks.

    Raises: HTTPError if it does not match the schema: 413 for what is too long, else 400.
    """
    options = schema.get("anyOf", [schema])
    schema = next((each for each in options if type(value) in TYPES[each["type"]]), None)
    if schema is None:
        kinds = " or ".join(each["type"] for each in options)
        raise HTTPError(400, f"{name} should be of type {kinds}")
    maximum = schema.get("maxItems", schema.get("maxLength"))
    if maximum is not None and len(value) > maximum:
        raise HTTPError(413, f"{name} has a length of {len(value):,}; at most {maximum:,} are read")
    match schema["type"]:
        case "object":
            return validate_fields(value, schema)
        case "array":
            if len(value) < (minimum := schema.get("minItems", 0)):
                few = (
                    f"has {len(value)} of at least {minimum} items" if value else "is an empty list"
                )
                raise HTTPError(400, f"{name} {few}")
            return [validate(each, schema["items"], f"each of {name}") for each in value]
        case "string":
            validate_text(value, schema, name)
        case "integer" | "number" as kind:
            low, high = schema["minimum"], schema["maximum"]
            if not low <= value <= high or (kind == "integer" and value != int(value)):
                raise HTTPError(400, f"{name} should be of type {kind}, from {low} to {high}")
            return int(value) if kind == "integer" else value
    return value


def validate_fields(entry: dict[str, Any], schema: Any) -> dict[str, Any]:
    """An object with validated fields, and defaults for those that it lacks."""
    known = schema["properties"]
    if unknown := sorted(entry.keys() - known.keys()):
        raise HTTPError(400, f"{unknown[0][:50]!r} is not supported. Supported: {', '.join(known)}")
    if missing := sorted(set(schema["required"]) - entry.keys()):
        raise HTTPError(400, f"{missing[0]} is missing")
    defaults: dict[str, Any] = schema.get("defaults", {})
    return defaults | {name: validate(value, known[name], name) for name, value in entry.items()}


def validate_text(value: str, schema: Any, name: str) -> None:
    """Raises: HTTPError if a text is no Unicode, or none of those that are allowed."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise HTTPError(400, f"{name} contains half of a surrogate pair") from None
    if value not in schema.get("enum", [value]):
        supported = ", ".join(schema["enum"])
        raise HTTPError(400, f"{name}={value[:50]!r} is not supported. Supported: {supported}")
    if not re.search(schema.get("pattern", ""), value):
        raise HTTPError(400, f"{name} is empty")
