"""The ledger of a run: the files of its data by hash, and how many pairs were kept."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq.data.cache import FileMemo
from seq2seq.data.corpus import Corpus
from seq2seq.data.encoding_stats import EncodingStats, Pieces
from seq2seq.data.mixture import Component
from seq2seq.durable import write_text
from seq2seq.errors import escape
from seq2seq.tokenization.tokenizer import Tokenizers


def make_ledger(
    components: Mapping[str, Sequence[Component]],
    corpora: Mapping[str, Corpus],
    tokenizers: Tokenizers,
    recipe: Mapping[str, Any],
    memo: FileMemo,
) -> dict[str, Any]:
    """A description of a run's data in plain values, see docs/data.md.

    Args:
        components: the corpora of each part: train, valid, and test if there is one.
        corpora: the encoded parts.
        tokenizers: of both sides.
        recipe: how they were learnt: `name` and its options.
        memo: caches the hashes of files.
    """
    parts = {}
    for part, corpus in corpora.items():
        pairs = zip(components[part], corpus.all_stats, strict=True)
        parts[part] = {
            "corpora": [corpus_entry(component, stats, memo) for component, stats in pairs],
            "duplicates": corpus.duplicates,
        }
        if part != "train":
            parts[part]["in_train"] = count_shared(corpus.hashes, corpora["train"].hashes)
    sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
    return {"tokenizer": {**recipe, **sizes}, "parts": parts}


def count_shared(some: np.ndarray, others: np.ndarray) -> int:
    """How many hashes of `some` are in `others`; both ascending. Reads little of `others`."""
    places = np.minimum(np.searchsorted(others, some), len(others) - 1)
    return int(np.count_nonzero(others[places] == some))


def corpus_entry(component: Component, stats: EncodingStats, memo: FileMemo) -> dict[str, Any]:
    report = stats.report
    return {
        "name": component.name,
        "weight": component.weight,
        "tag": component.tag,
        "files": [
            {"path": str(file), "sha256": memo.sha256(file), "bytes": file.stat().st_size}
            for file in component.text.files
        ],
        "read": report.read,
        "kept": report.kept,
        "max_length": report.max_length,
        "dropped": {
            "empty": {"count": report.empty, "lines": list(report.empty_lines)},
            "long": {"count": report.long, "lines": list(report.long_lines)},
        },
        "source": side_entry(stats.source),
        "target": side_entry(stats.target),
    }


def side_entry(pieces: Pieces) -> dict[str, Any]:
    return {**asdict(pieces), "pieces": pieces.total, "unknown_rate": pieces.unknown_rate}


def summary(ledger: Mapping[str, Any], corpora: Mapping[str, Corpus]) -> list[str]:
    """A few sentences of a ledger, to be shown before training."""
    lines, warnings = [], []
    for part, content in ledger["parts"].items():
        for each, stats in zip(content["corpora"], corpora[part].all_stats, strict=True):
            where = f"{part}.{each['name']}" if each["name"] else part
            lines.append(f"{where}: {stats.report}")
            for side in ("source", "target"):
                rate = each[side]["unknown_rate"]
                if rate > 0:
                    warnings.append(f"{where}: {rate:.2%} of the {side} pieces are unknown")
        shared = content.get("in_train", 0)
        if shared:
            kept = len(corpora[part])
            warnings.append(f"warning: {shared:,} of {kept:,} {part} pairs are in train as well")
    return [escape(line) for line in lines + warnings]


def write_ledger(ledger: Mapping[str, Any], folder: Path) -> None:
    """Write `data.json` into the folder of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(ledger, indent=1, ensure_ascii=False)
    write_text(folder / "data.json", text + "\n")
