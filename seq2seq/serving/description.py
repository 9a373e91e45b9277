"""The OpenAPI description of the service, merged from a common part and one part per protocol."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from seq2seq.serving.validation import FORM

FOLDER = Path(__file__).parent
PROTOCOLS = ("protocols/v1", "protocols/libretranslate", "protocols/deepl")


@cache
def load_description() -> Any:
    """The whole description, as clients get it."""
    files = (FOLDER / folder / "openapi.yaml" for folder in ("", *PROTOCOLS))
    description, *parts = (yaml.safe_load(file.read_text(encoding="utf-8")) for file in files)
    for part in parts:
        description["paths"] |= part.pop("paths")
        description["components"]["schemas"] |= part.pop("components")["schemas"]
        description |= part
    return description


class Dumper(yaml.SafeDumper):
    """Writes texts of several lines as block scalars."""

    def represent_text(self, text: str) -> yaml.Node:
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)


Dumper.add_representer(str, Dumper.represent_text)


@cache
def format_description() -> str:
    """The description in YAML."""
    text: str = yaml.dump(load_description(), Dumper=Dumper, sort_keys=False, allow_unicode=True)
    return text


@cache
def load_paths() -> Any:
    """The paths of the description, with each reference to a schema replaced by the schema."""
    description = load_description()
    return insert_schemas(description["paths"], description["components"]["schemas"])


def insert_schemas(node: Any, schemas: Any) -> Any:
    """A part of the description, with each reference to a schema replaced by the schema."""
    if isinstance(node, list):
        return [insert_schemas(each, schemas) for each in node]
    if not isinstance(node, dict):
        return node
    node = schemas.get(node.get("$ref", "").rpartition("/")[2], node)
    return {name: insert_schemas(each, schemas) for name, each in node.items()}


def describe_body(path: str, method: str) -> Any:
    """The description of the body of a request. If there is no body but a query, the query is
    described as a form; None if there is neither.
    """
    operation = load_paths()[path][method.lower()]
    query = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
    if "requestBody" in operation or not query:
        return operation.get("requestBody")
    required = [each["name"] for each in query if each["required"]]
    properties = {each["name"]: each["schema"] for each in query}
    schema = {"type": "object", "required": required, "properties": properties}
    schema["x-ignored"] = operation.get("x-ignored", [])
    return {"required": False, "content": {FORM: {"schema": schema}}}
