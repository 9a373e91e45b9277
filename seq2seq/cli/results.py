"""Translations as lines: the text alone, a table, or JSON."""

import argparse
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from seq2seq.symbols import EOS, NAMES

if TYPE_CHECKING:
    from seq2seq.data.tokenizer import Tokenizer
    from seq2seq.translation import Translation

# The number of a text and its translations, best first, or None -> lines.
Format = Callable[[int, "list[Translation] | None"], list[str]]


def format_of(arguments: argparse.Namespace, target: "Tokenizer") -> Format:
    """How `--json` and `--nbest` want translations to be written."""
    if arguments.json:
        return partial(as_json, nbest=arguments.nbest, labels=target.texts())
    return partial(as_table, nbest=arguments.nbest) if arguments.nbest else as_text


def as_text(number: int, found: "list[Translation] | None") -> list[str]:
    """The best translation, nothing else; an empty line if there is none."""
    return [one_line(found[0].text) if found else ""]


def as_table(number: int, found: "list[Translation] | None", *, nbest: int) -> list[str]:
    """Number, score and text of several translations, separated by tabs."""
    return [f"{number}\t{f.score:.4f}\t{one_line(f.text)}" for f in (found or [])[:nbest]]


def as_json(
    number: int, found: "list[Translation] | None", *, nbest: int | None, labels: list[str]
) -> list[str]:
    """An object for each translation.

    Without `nbest` there is one for each text, with null where there is nothing to say.

    Args:
        labels: what each piece adds to a text.
    """
    if not found:
        text = None if found is None else ""
        nothing: dict[str, Any]
        nothing = {"line": number, "text": text, "score": None, "confidence": None}
        nothing |= {"truncated": None, "tokens": None}
        return [] if nbest else [json.dumps(nothing)]
    return [
        json.dumps(described(number, f, labels), ensure_ascii=False) for f in found[: nbest or 1]
    ]


def described(number: int, found: "Translation", labels: list[str]) -> dict[str, Any]:
    pieces = [NAMES[EOS] if i == EOS else labels[i] for i in found.ids]
    return {
        "line": number,
        "text": found.text,
        "score": found.score,
        "confidence": found.confidence,
        "truncated": found.truncated,
        "tokens": list(zip(pieces, found.token_logp, strict=True)),
    }


def one_line(text: str) -> str:
    """A translation never makes two lines out of one."""
    return text.replace("\r", " ").replace("\n", " ")
