"""The ledger of a run: its data files with their hashes, and the number of pairs kept."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq.base.errors import escape
from seq2seq.data.corpus.cache import FileMemo, compute_once, digest, file_entry
from seq2seq.data.corpus.corpus import Corpus, EncodingStats, PieceStats, Share
from seq2seq.data.corpus.mixture import Component
from seq2seq.data.text.leaks import Leaks, count_leaks
from seq2seq.data.text.provenance import find_provenance, write_provenance
from seq2seq.text.tokenization.tokenizer import Tokenizers


def make_ledger(
    corpora: Mapping[str, Corpus],
    tokenizers: Tokenizers,
    recipe: Mapping[str, Any],
    links: Mapping[str, Sequence[Path | None]],
    stages: Sequence[Any] | None,
    cache: Path,
) -> dict[str, Any]:
    """Describe a run's data in plain values, see docs/data.md.

    Args:
        corpora: the encoded parts: train, valid, and optionally test.
        tokenizers: tokenizers of both sides.
        recipe: `name` and options with which the tokenizers were learnt.
        links: file of links of each corpus, by part.
        stages: the value of `data.stages`.
        cache: folder of results computed from files.
    """
    memo = FileMemo(cache)
    parts: dict[str, Any] = {}
    for part, corpus in corpora.items():
        pairs = zip(corpus.components, corpus.all_stats, strict=True)
        parts[part] = {
            "corpora": [corpus_entry(component, stats, memo) for component, stats in pairs],
            "duplicates": corpus.duplicates,
        }
        if part != "train":
            train = corpora["train"]
            parts[part]["in_train"] = count_common(corpus.hashes, train.hashes)
            parts[part]["leaks"] = find_leaks(corpus.components, train.components, cache)._asdict()
        elif stages is None:
            add_samples(parts["train"]["corpora"], corpus.shares)
    sizes = {"source_size": tokenizers.source.size, "target_size": tokenizers.target.size}
    ledger = {"tokenizer": {**recipe, **sizes}, "parts": parts}
    if links:
        ledger["links"] = {part: links_entry(corpora[part], links[part], memo) for part in links}
    return ledger if stages is None else {**ledger, "stages": stages}


def add_samples(entries: Sequence[dict[str, Any]], shares: Sequence[Share]) -> None:
    """Add the rows of a pass that each training corpus has, and their share of all rows."""
    total = sum(share.samples for share in shares)
    for entry, share in zip(entries, shares, strict=True):
        entry |= {"rows": share.samples, "share": share.samples / total}


def find_leaks(part: Sequence[Component], train: Sequence[Component], cache: Path) -> Leaks:
    """The leaks of a part into training text, counted once.

    Raises: DataError if a file is faulty, or if the cache cannot be written.
    """
    texts = [[each.text for each in some if not each.is_reversed] for some in (part, train)]
    prints = [[text.fingerprint(FileMemo(cache)) for text in some] for some in texts]

    def write(folder: Path) -> None:
        held_out, others = ((pair for text in some for pair in text.pairs()) for some in texts)
        leaks = count_leaks(list(held_out), others)
        (folder / "leaks.json").write_text(json.dumps(leaks), encoding="utf-8")

    folder = compute_once(cache, f"leaks-1-{digest([repr(prints)])}", write)
    return Leaks(*json.loads((folder / "leaks.json").read_bytes()))


def count_common(some: np.ndarray, others: np.ndarray) -> int:
    """The number of hashes of `some` in `others`, both ascending; reads little of `others`."""
    places = np.minimum(np.searchsorted(others, some), len(others) - 1)
    return int(np.count_nonzero(others[places] == some))


def corpus_entry(component: Component, stats: EncodingStats, memo: FileMemo) -> dict[str, Any]:
    augment = {"augment": dict(component.augment)} if component.is_augmented else {}
    return {
        "name": component.name,
        "weight": component.weight,
        "tag": component.tag,
        "direction": component.direction or None,
        **augment,
        "files": [entry_with_provenance(file, memo) for file in component.text.files],
        "read": stats.read,
        "kept": stats.kept,
        "max_length": stats.max_length,
        "dropped": {"empty": asdict(stats.empty), "long": asdict(stats.long)},
        "source": side_entry(stats.source),
        "target": side_entry(stats.target),
    }


def entry_with_provenance(file: Path, memo: FileMemo) -> dict[str, Any]:
    entry = file_entry(file, memo.sha256)
    provenance = find_provenance(file, entry["sha256"])
    return entry if provenance is None else {**entry, "provenance": provenance}


def side_entry(pieces: PieceStats) -> dict[str, Any]:
    rate = pieces.unknown / max(pieces.total, 1)
    return {**asdict(pieces), "pieces": pieces.total, "unknown_rate": rate}


def links_entry(
    corpus: Corpus, files: Sequence[Path | None], memo: FileMemo
) -> list[dict[str, str]]:
    """The file of links of each corpus that has one, with its hash."""
    return [
        {"corpus": component.name, "path": str(file), "sha256": memo.sha256(file)}
        for component, file in zip(corpus.components, files, strict=True)
        if file is not None
    ]


def summarize(ledger: Mapping[str, Any], corpora: Mapping[str, Corpus]) -> list[str]:
    """Summarize a ledger in a few sentences, shown before training."""
    lines, more = [], []
    train = (each for each in ledger["parts"]["train"]["corpora"] if "share" in each)
    sampled = [f"{each['name']} {each['rows']:,} ({each['share']:.1%})" for each in train]
    if len(sampled) > 1:
        more.append(f"rows of a pass: {', '.join(sampled)}")
    for part, content in ledger["parts"].items():
        for each, stats in zip(content["corpora"], corpora[part].all_stats, strict=True):
            where = f"{part}.{each['name']}" if each["name"] else part
            lines.append(f"{where}: {stats}")
            if 2 * stats.kept < stats.read:
                more.append(f"warning: {where}: more than half of the pairs are left out")
            for side in ("source", "target"):
                rate = each[side]["unknown_rate"]
                if rate > 0:
                    more.append(f"{where}: {rate:.2%} of the {side} pieces are unknown")
        if shared := content.get("in_train", 0):
            kept = len(corpora[part])
            more.append(f"warning: {shared:,} of {kept:,} {part} pairs are in train as well")
        if any(leaks := Leaks(**content.get("leaks", {}))):
            pairs = zip(corpora[part].components, corpora[part].all_stats, strict=True)
            read = sum(stats.read for component, stats in pairs if not component.is_reversed)
            more.append(leaks.describe(read, part))
    return [escape(line) for line in lines + more]


def write_ledger(ledger: Mapping[str, Any], folder: Path) -> None:
    """Write `data.json` into the folder of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    write_provenance(folder / "data.json", ledger)
