"""Requests: their limits, and validation of their fields by the description of the service."""

import codecs
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from python_multipart.multipart import FormParser, parse_options_header
from starlette.datastructures import Headers
from starlette.requests import Request

from seq2seq.serving.errors import HTTPError
from seq2seq.text.languages import language_code

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
PARTS = "multipart/form-data"
BYTES = 12  # most bytes that forms or JSON need for a character
MAX_FIELDS = 200  # in a form or a query
MAX_BRACKETS = 2**16  # in a JSON body: reading this many lists takes 0.1 s

KEY_NAMES = ("api_key", "auth_key")
AUTO = "auto"  # as a source language

Entry = dict[str, Any]  # fields of a request by name
Fields = dict[str, list[str]]  # values of a form's fields by name


@dataclass(frozen=True)
class Limits:
    """Limits on the requests of clients, and on waiting for them.

    Attributes:
        queue: Pieces that a model may have accepted and not yet answered. One client may have half
            of them while others wait; the default is enough for a text with the default number of
            `characters`.
        deadline: Seconds until an answer, unless the client sets a deadline of its own.
        characters: Characters in all texts of a request, and in a sentence of a document.
        beam_size: Beams and alternatives of a request.
        file: Bytes of a body that contains a file.
        patience: Seconds within which a body must arrive.
        connections: Open connections, and requests answered at the same time.
        grace: Seconds that documents have to finish when the server drains.
    """

    queue: int = 40_960
    deadline: float = 30.0
    characters: int = 20_000
    beam_size: int = 10
    file: int = 2**23
    patience: float = 10.0
    connections: int = 512
    grace: float = 8.0  # `docker stop` allows 10

    @property
    def text(self) -> int:
        """Bytes of the longest text in a form or JSON."""
        return BYTES * self.characters

    @property
    def body(self) -> int:
        """Bytes of a body without a file: 1 MiB, or more if longer texts are allowed."""
        return max(2**20, self.text + 2**16)


class UploadedFile(str):
    """The name of a file that a client has sent, and its content as `data`."""

    data: bytes

    def __new__(cls, name: str, data: bytes) -> "UploadedFile":
        file = super().__new__(cls, name)
        file.data = data
        return file


TYPES: dict[str, tuple[type, ...]] = {
    "string": (str, UploadedFile),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def read_entry(request: Request, body: bytes, description: Any) -> Entry:
    """The fields of a request, with defaults for missing ones and without keys. Fields in the query
    take precedence over those of a form. A source language to be detected is always `auto`, even if
    the client writes it differently.

    Args:
        description: Description of the body, from `describe_body`.

    Raises: HTTPError if the request does not match the description.
    """
    content = description["content"]
    query = request.scope["query_string"]
    kind = media_type(request.headers)
    if not body and (query or not description["required"]):
        kind = FORM  # the body is an empty form
    if kind not in content:
        raise HTTPError(415, f"{kind[:80]!r} is not supported. Supported: {', '.join(content)}")
    schema = content[kind]["schema"]
    try:
        if kind == JSON:
            entry = parse_json(body.decode("utf-8-sig"))
        else:
            if kind == PARTS:
                form = parse_parts(request.headers, body, int("file" in schema["properties"]))
            else:
                form = parse_form(body.decode("utf-8-sig"))
            form |= parse_form(query.decode("latin-1"))
            known = schema["properties"]
            entry = {name: parse_values(name, form[name], known.get(name, {})) for name in form}
    except UnicodeDecodeError as error:
        raise HTTPError(400, f"the body is not UTF-8: {error.reason}") from None
    except (ValueError, RecursionError) as error:
        raise HTTPError(400, f"the body cannot be read as {kind}: {error}") from None
    if isinstance(entry, dict):
        entry = {name: value for name, value in entry.items() if name not in KEY_NAMES}
    entry = dict(validate(entry, schema, "the body"))
    detected = {
        each for each in ("source", "source_lang") if language_code(entry.get(each)) == AUTO
    }
    return entry | dict.fromkeys(detected, AUTO)


def parse_json(text: str) -> Any:
    """Parse JSON. Raises: ValueError if the text is not JSON; HTTPError if it takes too long."""
    brackets = text.count("[") + text.count("{")
    if brackets > MAX_BRACKETS:
        raise HTTPError(413, f"the body has {brackets:,} brackets; at most {MAX_BRACKETS:,}")
    return json.loads(text)


def media_type(headers: Headers) -> str:
    """The media type of a body, without options."""
    return headers.get("content-type", JSON).partition(";")[0].strip().lower()


def parse_form(text: str) -> Fields:
    """The values of each field of a form. Raises: ValueError if the form cannot be read."""
    return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)


def parse_parts(headers: Headers, body: bytes, max_files: int, is_whole: bool = True) -> Fields:
    """The values of each field of a multipart body.

    Args:
        max_files: Largest number of parts that may be files.
        is_whole: True if the body is complete; if False, only its complete parts are read.

    Raises: ValueError if the body cannot be read.
    """
    fields: Fields = {}
    room = [MAX_FIELDS, max_files]

    def add(part: Any) -> None:
        is_file = hasattr(part, "file_object")
        room[is_file] -= 1
        if room[is_file] < 0:
            raise ValueError(f"it has more than {max_files} files or {MAX_FIELDS} other parts")
        value = read_file(part) if is_file else (part.value or b"").decode()
        fields.setdefault(part.field_name.decode(), []).append(value)

    boundary = parse_options_header(headers["content-type"])[1].get(b"boundary")
    if not boundary:
        raise ValueError("its Content-Type should name the boundary of the parts")
    config = {"MAX_MEMORY_FILE_SIZE": float("inf")}
    parser = FormParser(PARTS, add, add, boundary=boundary, config=config)
    try:
        parser.write(body.removeprefix(codecs.BOM_UTF8))
        if is_whole:
            parser.finalize()
    finally:
        vars(parser).clear()  # breaks a reference cycle that would keep the file in memory
    return fields


def read_file(part: Any) -> UploadedFile:
    """The file in a part."""
    part.file_object.seek(0)
    return UploadedFile(part.file_name.decode("utf-8", "replace"), part.file_object.read())


def parse_values(name: str, values: list[str], schema: Any) -> Any:
    """The value of a form's field, converted to the type in its schema where possible. It is a list
    if the schema allows one and the field has several values.

    Raises: HTTPError if the field has several values and may not be a list.
    """
    kinds = [each["type"] for each in schema.get("anyOf", [schema]) if "type" in each]
    if "array" in kinds and (len(values) > 1 or len(kinds) == 1):
        return values
    if len(values) > 1 and kinds:
        raise HTTPError(400, f"{name[:50]} is given {len(values)} times: give it once")
    match kinds, values[0]:
        case ["boolean"], "0" | "1":
            return values[0] == "1"
        case ["integer" | "number" | "boolean"], text:
            with suppress(ValueError):
                return json.loads(text)
    return values[0]


def validate(value: Any, schema: Any, name: str) -> Any:
    """The value, with defaults for missing fields of objects.

    Raises: HTTPError if the value does not match the schema: 413 if it is too long, else 400.
    """
    options = schema.get("anyOf", [schema])
    schema = next((each for each in options if type(value) in TYPES[each["type"]]), None)
    if schema is None:
        kinds = " or ".join(each["type"] for each in options)
        raise HTTPError(400, f"{name} should be of type {kinds}")
    maximum = schema.get("maxItems", schema.get("maxLength"))
    if maximum is not None and len(value) > maximum:
        raise HTTPError(413, f"{name} has length {len(value):,}; at most {maximum:,} is allowed")
    match schema["type"]:
        case "object":
            return validate_fields(value, schema)
        case "array":
            if len(value) < (minimum := schema.get("minItems", 0)):
                few = f"has {len(value)} of at least {minimum} items" if value else "is empty"
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


def validate_fields(entry: Entry, schema: Any) -> Entry:
    """The validated fields of an object, with defaults for missing ones, and without those that are
    ignored.
    """
    known = schema["properties"]
    ignored = set(schema.get("x-ignored", ())) - known.keys()
    if unknown := sorted(entry.keys() - known.keys() - ignored):
        raise HTTPError(400, f"{unknown[0][:50]!r} is not supported. Supported: {', '.join(known)}")
    if missing := sorted(set(schema["required"]) - entry.keys()):
        raise HTTPError(400, f"{missing[0]} is missing")
    defaults = {name: each["default"] for name, each in known.items() if "default" in each}
    return defaults | {
        name: validate(value, known[name], name)
        for name, value in entry.items()
        if name not in ignored
    }


def validate_text(value: str, schema: Any, name: str) -> None:
    """Check a text. Raises: HTTPError if it is not valid Unicode, or the schema forbids it."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise HTTPError(400, f"{name} contains half of a surrogate pair") from None
    if value not in schema.get("enum", [value]):
        supported = ", ".join(schema["enum"])
        raise HTTPError(400, f"{name}={value[:50]!r} is not supported. Supported: {supported}")
    if not re.search(schema.get("pattern", ""), value):
        raise HTTPError(400, f"{name} is empty")
