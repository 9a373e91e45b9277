"""Encode text as blocks of piece ids. Several blocks are encoded on all cores, and each is written
to disk as soon as it is complete.

An interrupted encoding resumes: blocks on disk are not encoded again.
"""

import gc
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from seq2seq.base.durable import replacing
from seq2seq.base.environment import delay_interrupts, usable_cores
from seq2seq.base.errors import DataError
from seq2seq.data.corpus.mixture import Component
from seq2seq.data.text.formats import Pair, hash_pair
from seq2seq.data.text.windows import windows
from seq2seq.text.tokenization.tokenizer import Tokenizer, Tokenizers

KEPT, EMPTY, LONG = range(3)  # the outcomes of a pair
# Text is encoded in chunks; the two limits bound the memory, however long the lines are.
CHUNK_LINES, CHUNK_CHARACTERS = 4096, 2**20
# Pairs of a block: two seconds of work, so processes are worth starting for more than one block.
BLOCK_PAIRS = 2**15
BLOCK_BYTES = 2**24  # maximum text of a block, or one pair more; each core has some waiting


def judge_pair(pair: Pair, pieces: int, max_length: int) -> int:
    """KEPT, EMPTY or LONG; `pieces` is the length of the longer side, with its tag, without EOS."""
    if not (pair[0].strip() and pair[1].strip()):
        return EMPTY
    # A row of exactly `max_length` pieces is too long: EOS is one more.
    return KEPT if pieces < max_length else LONG


class Block(NamedTuple):
    """Encoded pairs as arrays: concatenated ids, lengths and hashes of the kept pairs, and the
    outcome of every pair: KEPT, EMPTY or LONG.
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
    for chunk in windows(
        pairs, CHUNK_LINES, lambda pair: len(pair[0]) + len(pair[1]), CHUNK_CHARACTERS
    ):
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


def join_rows(rows: Sequence[list[int]], tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all rows, concatenated, and the length of each row."""
    ids = np.fromiter(chain.from_iterable(rows), smallest_type(tokenizer))
    return ids, np.array([len(row) for row in rows], "<i4")


def smallest_type(tokenizer: Tokenizer) -> str:
    """The smallest type that holds all ids of a tokenizer, such as `<u2`."""
    return np.min_scalar_type(tokenizer.size - 1).newbyteorder("<").str


def encode_component(
    component: Component, tokenizers: Tokenizers, max_length: int, pairs: int, folder: Path
) -> Iterator[Block]:
    """Yield all pairs of a component as encoded blocks, in order.

    Args:
        pairs: number of pairs.
        folder: folder for the blocks, if there are several; the caller removes it.

    Raises: DataError for a faulty file, and if a process was killed.
    """
    texts = windows(component.text.pairs(), BLOCK_PAIRS, count_bytes, BLOCK_BYTES)
    tags = zip(tokenizers, (component.tag, component.target_tag), strict=True)
    tokenizers = Tokenizers(*(each if tag is None else each.with_tag(tag) for each, tag in tags))
    if pairs <= BLOCK_PAIRS:
        yield from (encode_block(text, tokenizers, max_length) for text in texts)
        return
    folder.mkdir(parents=True, exist_ok=True)
    described = tuple((each.to_json(), tuple(each.prefix)) for each in tokenizers)
    count = min(usable_cores(), -(-pairs // BLOCK_PAIRS))
    # Not forked from this process: a copy would lack its threads.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__])
    with ProcessPoolExecutor(count, context, initializer=end_with_parent) as pool:
        waiting: deque[tuple[Path, Future[None] | None]] = deque()
        pair = 1
        for text in texts:
            # The name contains the rows, so versions with other block sizes never share files.
            path, future = folder / f"{pair}-{pair + len(text) - 1}.npz", None
            if load_block(path) is None:
                with delay_interrupts():  # only this process handles Ctrl-C
                    future = pool.submit(save_block, path, text, described, max_length)
            waiting.append((path, future))
            pair += len(text)
            if len(waiting) > 2 * count:
                yield wait_for_block(*waiting.popleft())
        while waiting:
            yield wait_for_block(*waiting.popleft())


def count_bytes(pair: Pair) -> int:
    return sum(len(side.encode()) for side in pair)


def wait_for_block(path: Path, future: Future[None] | None) -> Block:
    """Wait for a block. Raises: DataError if its process was killed, or its file is damaged."""
    try:
        if future is not None:
            future.result()
    except BrokenProcessPool as error:
        raise DataError(
            "a process that encoded text was killed, usually because memory ran out. What is done "
            "is kept: type the same command again, with fewer cores: taskset -c 0 COMMAND"
        ) from error
    block = load_block(path)
    if block is None:
        raise DataError(f"{path} cannot be read again: is the disk full or damaged?")
    return block


def load_block(path: Path) -> Block | None:
    """A block; None if it is missing or damaged."""
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            return Block(**arrays)
    except (OSError, ValueError, TypeError, EOFError, BadZipFile):
        return None


def save_block(
    path: Path,
    pairs: list[Pair],
    described: tuple[tuple[str, tuple[int, ...]], ...],
    max_length: int,
) -> None:
    """Encode and save a block in a separate process; `described` is text and tag of tokenizers."""
    tokenizers = Tokenizers(*(load_tokenizer(*each) for each in described))
    block = encode_block(pairs, tokenizers, max_length)
    with replacing(path) as file:
        np.savez(file, **block._asdict())


@cache
def load_tokenizer(text: str, prefix: tuple[int, ...]) -> Tokenizer:
    tokenizer = Tokenizer.from_json(text)
    tokenizer.prefix = list(prefix)
    return tokenizer


def end_with_parent() -> None:
    """End this process as soon as its parent ends, for any reason, and use one core only."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    gc.disable()  # blocks are many objects without cycles, and collection takes time
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
