"""Small corpora of text on disk, and lengths of real ones."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers.small_corpora import ENGLISH, GERMAN, small_tokenizer

from seq2seq.base.errors import DataError
from seq2seq.data.text.lines import find_side, read_lines
from seq2seq.text.tokenization.bpe import ByteLevelBPE
from seq2seq.text.tokenization.tokenizer import Tokenizer, Tokenizers


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return small_tokenizer()


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


@pytest.fixture(scope="session")
def real_lengths() -> Callable[[str], tuple[np.ndarray, np.ndarray]]:
    """Numbers of pieces in a real corpus of data/, English and German; skips without the corpus."""

    def lengths(name: str) -> tuple[np.ndarray, np.ndarray]:
        folder = Path(__file__).resolve().parents[2] / "data" / name
        if name == "multi30k":
            folder = Path(os.environ.get("SEQ2SEQ_MULTI30K", folder))
        try:
            paths = find_side(folder / "train", "en"), find_side(folder / "train", "de")
        except DataError as error:
            pytest.skip(str(error))
        sides = [list(read_lines(path)) for path in paths]
        learnt = ByteLevelBPE().train(sides[0] + sides[1])
        counts = [np.array([len(ids) for ids in learnt.encode_batch(side)]) for side in sides]
        return counts[0], counts[1]

    return lengths
