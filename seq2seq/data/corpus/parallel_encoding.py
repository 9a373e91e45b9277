"""Encode a large text with all cores: in blocks that are on disk, whole, as soon as they are done.

An interrupted encoding is continued: what is on disk is not encoded again.
"""

import gc
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from seq2seq.base.durable import replacing
from seq2seq.base.environment import delay_interrupts, usable_cores
from seq2seq.base.errors import DataError
from seq2seq.data.corpus.encode import Block, encode_block
from seq2seq.data.corpus.mixture import Component
from seq2seq.data.text.formats import Pair
from seq2seq.data.text.windows import windows
from seq2seq.text.tokenization.tokenizer import Tokenizer, Tokenizers

# Pairs of a block: two seconds of work, so that starting a process is worth it for more than one.
BLOCK_PAIRS = 2**15
BLOCK_BYTES = 2**24  # of the text of a block, or one pair more: each core has some that wait


def encode_component(
    component: Component, tokenizers: Tokenizers, max_length: int, pairs: int, folder: Path
) -> Iterator[Block]:
    """All pairs of a component, encoded, in order.

    Args:
        pairs: how many there are.
        folder: for blocks, if there are several; it is left to the caller.

    Raises: DataError for a faulty file, and if a process was killed.
    """
    texts = windows(component.text.pairs(), BLOCK_PAIRS, count_bytes, BLOCK_BYTES)
    if component.tag is not None:
        source = tokenizers.source.with_tag(component.tag)
        tokenizers = tokenizers._replace(source=source)
    if pairs <= BLOCK_PAIRS:
        yield from (encode_block(text, tokenizers, max_length) for text in texts)
        return
    folder.mkdir(parents=True, exist_ok=True)
    described = tuple((each.to_json(), tuple(each.prefix)) for each in tokenizers)
    count = min(usable_cores(), -(-pairs // BLOCK_PAIRS))
    # Not forked from this process, whose threads a copy would lack.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__])
    with ProcessPoolExecutor(count, context, initializer=end_with_parent) as pool:
        waiting: deque[tuple[Path, Future[None] | None]] = deque()
        pair = 1
        for text in texts:
            # A version that cuts blocks elsewhere gives them other names.
            path, future = folder / f"{pair}-{pair + len(text) - 1}.npz", None
            if load_block(path) is None:
                with delay_interrupts():  # Ctrl-C is for this process
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
    """A block, once it is done. Raises: DataError if its process was killed or the disk lost it."""
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
    """Encode a block in a process of its own; `described` is the text and the tag of tokenizers."""
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
    """Let this process end as soon as its parent does, however that ends; it uses one core."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    gc.disable()  # a block is many objects without a cycle, and the search for one takes time
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
