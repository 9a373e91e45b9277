"""Encode text: pairs into blocks of piece ids, and blocks into the files of a corpus."""

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seq2seq.data.encoding_stats import KEPT, EncodingStats, judge_pair
from seq2seq.data.formats import Pair, hash_pair
from seq2seq.data.mixture import Component
from seq2seq.data.ragged_array import RaggedWriter
from seq2seq.data.windows import windows
from seq2seq.tokenization.tokenizer import Tokenizer, Tokenizers

# Text is encoded in chunks; both limits bound the memory, however long the lines are.
CHUNK_LINES, CHUNK_CHARACTERS = 4096, 2**20
SIDES = ("source", "target")


class Block(NamedTuple):
    """Encoded pairs as arrays: of those that are kept the ids end to end, their lengths, and
    hashes; of all pairs what became of them: KEPT, EMPTY or LONG.
    """

    source: np.ndarray
    source_lengths: np.ndarray
    target: np.ndarray
    target_lengths: np.ndarray
    hashes: np.ndarray
    outcomes: np.ndarray


def encode_block(pairs: Iterable[Pair], tokenizers: Tokenizers, max_length: int) -> Block:
    """Encode some pairs of a component with its tokenizers."""
    sources: list[list[int]] = []
    targets: list[list[int]] = []
    hashes, outcomes = [], []
    for chunk in windows(pairs, CHUNK_LINES, count_characters, CHUNK_CHARACTERS):
        of_sources = tokenizers.source.encode_batch([source for source, _ in chunk])
        of_targets = tokenizers.target.encode_batch([target for _, target in chunk])
        for pair, source, target in zip(chunk, of_sources, of_targets, strict=True):
            outcomes.append(judge_pair(pair, max(len(source), len(target)), max_length))
            if outcomes[-1] == KEPT:
                sources.append(source)
                targets.append(target)
                hashes.append(hash_pair(*pair))
    return Block(
        *join_rows(sources, tokenizers.source),
        *join_rows(targets, tokenizers.target),
        np.array(hashes, "<u8"),
        np.array(outcomes, np.uint8),
    )


def count_characters(pair: Pair) -> int:
    return len(pair[0]) + len(pair[1])


def join_rows(rows: Sequence[list[int]], tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """The ids of rows end to end, and the length of each row."""
    ids = np.fromiter(chain.from_iterable(rows), smallest_type(tokenizer))
    return ids, np.array([len(row) for row in rows], "<i4")


def smallest_type(tokenizer: Tokenizer) -> str:
    """The smallest type that holds all ids of a tokenizer, such as `<u2`."""
    return np.min_scalar_type(tokenizer.size - 1).newbyteorder("<").str


def write_corpus(
    folder: Path,
    components: Sequence[Component],
    blocks: Iterable[Iterable[Block]],
    tokenizers: Tokenizers,
    max_length: int,
) -> list[EncodingStats]:
    """Write the files of a corpus, block by block.

    Args:
        blocks: of each component.

    Returns: the statistics of each component.
    Raises: DataError for a faulty file.
    """
    all_stats = [EncodingStats(max_length) for _ in components]
    with ExitStack() as files:
        hashes = files.enter_context((folder / "hashes").open("wb"))
        outcomes = files.enter_context((folder / "outcomes").open("wb"))
        sources, targets = (RaggedWriter(files, folder, side) for side in SIDES)
        for component, stats, of_component in zip(components, all_stats, blocks, strict=True):
            for block in of_component:
                sources.append(block.source, block.source_lengths)
                targets.append(block.target, block.target_lengths)
                block.hashes.tofile(hashes)
                block.outcomes.tofile(outcomes)
                stats.count_pairs(block.outcomes, component.text.first_line)
                stats.source.count(block.source, block.source_lengths)
                stats.target.count(block.target, block.target_lengths)
    note = {
        "stats": [asdict(stats) for stats in all_stats],
        "duplicates": sort_hashes(folder / "hashes"),
        "types": [smallest_type(tokenizer) for tokenizer in tokenizers],
    }
    (folder / "report.json").write_text(json.dumps(note), encoding="utf-8")
    return all_stats


def sort_hashes(path: Path) -> int:
    """Sort a file of hashes in place. Returns: how many repeat an earlier one."""
    if path.stat().st_size == 0:
        return 0
    hashes = np.memmap(path, "<u8", "r+")
    hashes.sort()
    hashes.flush()
    return int(np.count_nonzero(hashes[1:] == hashes[:-1]))
