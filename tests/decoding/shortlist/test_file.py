"""The file of a shortlist: read as it was written, and refused if it is anything else."""

import json
import random
from pathlib import Path

import pytest
import torch

from seq2seq.base.errors import DataError
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.decoding.shortlist.file import NAME, find_shortlist, read_shortlist, write_shortlist
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.text.tokenization.words import WordLevel


def words_tokenizer(text: str) -> Tokenizers:
    learnt = WordLevel(vocab_size=100).train([text])
    return Tokenizers(learnt, learnt)


TOKENIZERS = words_tokenizer("a b c d")


def lists_of(*lists: list[int]) -> Shortlist:
    ends = torch.tensor([0, *map(len, lists)]).cumsum(0)
    return Shortlist(ends, torch.tensor(sum(lists, []), dtype=torch.int32))


LISTS = lists_of(*([] for _ in range(4)), [4, 6], [], [5], [4, 5, 7], [4])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_shortlist(tmp_path / NAME, LISTS, TOKENIZERS)
    return tmp_path / NAME


def test_a_shortlist_is_read_as_it_was_written(file: Path) -> None:
    for path in (file, file.parent):
        read = read_shortlist(path, TOKENIZERS)
        for found, expected in ((read.offsets, LISTS.offsets), (read.ids, LISTS.ids)):
            assert torch.equal(found, expected) and found.dtype == expected.dtype


def test_the_file_is_found_beside_a_checkpoint_and_in_the_folder_of_a_run(file: Path) -> None:
    assert find_shortlist(file.parent) == find_shortlist(file.parent / "best.ckpt") == file
    assert find_shortlist(file.parent / "none" / "best.ckpt") is None


def test_tokens_of_several_lists_are_unique_and_include_the_end() -> None:
    assert LISTS.tokens([4, 7]).tolist() == [2, 4, 5, 6, 7]
    assert LISTS.tokens([5], [6, 6, 4]).tolist() == [2, 4, 6]


def test_lists_of_other_pieces_are_refused(file: Path) -> None:
    for text in ("a b c e", "a b c"):
        with pytest.raises(DataError, match="belongs to another model: its source pieces"):
            read_shortlist(file, words_tokenizer(text))


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (lists_of(*([] for _ in range(8)), [4, 8]), "its lists are not valid"),
        (lists_of(*([] for _ in range(8)), [-1]), "its lists are not valid"),
        (lists_of(*([] for _ in range(8)), [5, 4]), "its lists are not valid"),
        (lists_of(*([] for _ in range(8)), [5, 5]), "its lists are not valid"),
        (Shortlist(torch.tensor([0, 2, 1, *[2] * 7]), LISTS.ids[:2]), "its lists are not valid"),
        (Shortlist(LISTS.offsets[:-1], LISTS.ids), "its size is not"),
    ],
)
def test_invalid_lists_are_refused(tmp_path: Path, lists: Shortlist, message: str) -> None:
    write_shortlist(tmp_path / NAME, lists, TOKENIZERS)
    with pytest.raises(DataError, match=message):
        read_shortlist(tmp_path, TOKENIZERS)


def test_any_edit_of_the_file_is_refused_or_gives_lists(file: Path) -> None:
    content, draw = file.read_bytes(), random.Random(0)
    for _ in range(400):
        edited = bytearray(content)
        for _ in range(draw.randint(1, 3)):
            edited[draw.randrange(len(edited))] = draw.randrange(256)
        file.write_bytes(edited[: draw.choice([len(edited), draw.randrange(len(edited))])])
        try:
            lists = read_shortlist(file, TOKENIZERS)
        except DataError:
            continue
        assert all(4 <= i < 8 or i < 4 for i in lists.tokens(range(8)).tolist())


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, json.dumps({"format": 2}).encode(), b"9" * 5000],
)
def test_a_file_that_is_not_a_shortlist_is_refused(file: Path, line: bytes) -> None:
    file.write_bytes(line + b"\n")
    with pytest.raises(DataError, match="is not a shortlist of seq2seq"):
        read_shortlist(file, TOKENIZERS)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{NAME} cannot be read.*seq2seq shortlist RUN"):
        read_shortlist(tmp_path, TOKENIZERS)
