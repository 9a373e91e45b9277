"""Small corpora: of text on disk, and of ids in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from seq2seq.data.corpus import Corpus, Report, Side
from seq2seq.data.tokenizer import ByteLevelBPE, Tokenizer, Tokenizers

GERMAN = ["ein hund läuft", "eine katze schläft", "der hund sieht die katze", "die katze lacht"]
ENGLISH = ["a dog runs", "a cat sleeps", "the dog sees the cat", "the cat laughs"]


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return ByteLevelBPE(vocab_size=300).train(GERMAN + ENGLISH)


@pytest.fixture(scope="session")
def tokenizers(tokenizer: Tokenizer) -> Tokenizers:
    return Tokenizers(tokenizer, tokenizer)


@pytest.fixture
def parallel(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Writes lists of sentences as PREFIX.de and PREFIX.en."""

    def write(
        name: str = "train", source: Sequence[str] = GERMAN, target: Sequence[str] = ENGLISH
    ) -> tuple[Path, Path]:
        paths = tmp_path / f"{name}.de", tmp_path / f"{name}.en"
        for path, lines in zip(paths, (source, target), strict=True):
            path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        return paths

    return write


@pytest.fixture
def corpus_of() -> Callable[[Sequence[int], Sequence[int]], Corpus]:
    """A corpus in memory with given lengths; row i of either side repeats the id 4 + i."""

    def side(lengths: Sequence[int]) -> Side:
        ids = np.repeat(np.arange(len(lengths), dtype=np.int32) + 4, lengths)
        return Side(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    def build(source: Sequence[int], target: Sequence[int]) -> Corpus:
        return Corpus(side(source), side(target), Report(len(source), len(source), 256))

    return build
