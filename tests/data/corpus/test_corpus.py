import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small_corpora import ENGLISH, GERMAN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq.base.errors import DataError
from seq2seq.data.corpus import blocks
from seq2seq.data.corpus import corpus as corpus_module
from seq2seq.data.corpus.blocks import Block
from seq2seq.data.corpus.corpus import (
    SIDES,
    Corpus,
    EncodingStats,
    LeftOut,
    PieceStats,
    encode_corpus,
)
from seq2seq.data.corpus.mixture import Component
from seq2seq.data.text.formats import TwoFiles
from seq2seq.text.tokenization.bpe import ByteLevelBPE
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.text.tokenization.words import CharacterLevel

Parallel = Callable[..., tuple[Path, Path]]
Encode = Callable[..., Corpus]
KINDS = ("values", "offsets", "lengths")


def rows(corpus: Corpus) -> list[tuple[list[int], list[int]]]:
    return [(corpus.source(i).tolist(), corpus.target(i).tolist()) for i in range(len(corpus))]


def lines_of(source: Path, target: Path) -> list[Component]:
    return [Component("", TwoFiles(source, target))]


@pytest.fixture
def encode(parallel: Parallel, tokenizers: Tokenizers, tmp_path: Path) -> Encode:
    """A function that encodes files, by default those of the small corpus."""

    def encoded(
        files: tuple[Path, Path] | list[Component] | None = None,
        max_length: int = 50,
        both: Tokenizers = tokenizers,
        cache: str | Path = "c",
    ) -> Corpus:
        components = files if isinstance(files, list) else lines_of(*(files or parallel()))
        return encode_corpus(components, both, max_length=max_length, cache_dir=tmp_path / cache)

    return encoded


def test_text_and_ids_belong_to_the_same_rows(
    parallel: Parallel, tokenizers: Tokenizers, encode: Encode
) -> None:
    tagged = Tokenizers(tokenizers.source.with_tags(["t"]), tokenizers.target)
    letters = ["a" * n for n in range(9)]
    components = [
        Component("plain", TwoFiles(*parallel("plain", letters, letters))),
        Component("tagged", TwoFiles(*parallel("tagged", letters, letters)), tag="t"),
    ]
    corpus = encode(components, 6, tagged)
    text = list(corpus.texts())
    assert 2 < len(text) == len(corpus) < 2 * len(letters) - 2
    ids = [tagged.target.encode_batch([target])[0] for _, target in text]
    assert [target for _, target in rows(corpus)] == ids
    assert all(source == target for source, target in text)


def stats_of(corpus: Corpus) -> EncodingStats:
    """The statistics of a corpus without those of its pieces."""
    [stats] = corpus.all_stats
    return replace(stats, source=PieceStats(), target=PieceStats())


def folders_of(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.is_dir() and path.name != "stamps"]


def folder_of(cache: Path) -> Path:
    [folder] = folders_of(cache)
    return folder


def test_a_corpus_holds_the_pieces_of_every_line(tokenizers: Tokenizers, encode: Encode) -> None:
    corpus = encode()
    expected = [tokenizers.source.encode_batch(side) for side in (GERMAN, ENGLISH)]
    assert rows(corpus) == list(zip(*expected, strict=True))
    assert corpus.source_lengths.tolist() == [len(ids) for ids in expected[0]]
    assert corpus.target_lengths.tolist() == [len(ids) for ids in expected[1]]
    assert len(corpus) == 4
    assert stats_of(corpus) == EncodingStats(max_length=50, kept=4)
    with pytest.raises(ValueError, match="read-only"):
        corpus.source(0)[0] = 1


def test_each_side_is_encoded_by_its_tokenizer(parallel: Parallel, encode: Encode) -> None:
    both = Tokenizers(
        ByteLevelBPE(vocab_size=260).train([]), ByteLevelBPE(vocab_size=270).train(["dog"] * 9)
    )
    corpus = encode(parallel("one", ["dog"], ["dog"]), 9, both)
    assert (len(corpus.source(0)), len(corpus.target(0))) == (3, 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=st.integers(1, 9))
def test_the_size_of_a_chunk_does_not_matter(
    size: int, parallel: Parallel, encode: Encode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = ["a", "", "b " * 9, "c", " ", "d", "", "", "", "", "e"]
    paths = parallel("odd", source, ["x"] * len(source))
    corpora = []
    for lines, characters in ((4096, 2**20), (size, 2**20), (4096, size)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "CHUNK_LINES", lines)
            patch.setattr(blocks, "CHUNK_CHARACTERS", characters)
            corpora.append(encode(paths, 5, cache=tmp_path_factory.mktemp("cache")))
    assert rows(corpora[0]) == rows(corpora[1]) == rows(corpora[2])
    assert stats_of(corpora[0]) == stats_of(corpora[1]) == stats_of(corpora[2])
    assert stats_of(corpora[0]) == EncodingStats(
        5, 4, empty=LeftOut(6, [2, 5, 7, 8, 9, 10]), long=LeftOut(1, [3])
    )


def test_pairs_with_an_empty_side_are_left_out_and_counted(
    parallel: Parallel, tokenizers: Tokenizers, encode: Encode
) -> None:
    source = ["", "b", " \t", "d", "\u2028\xa0", "f", "", "h", ""]
    target = ["1", "", "3", "4", "5", "6", "", "8", "9"]
    corpus = encode(parallel("odd", source, target))
    assert stats_of(corpus) == EncodingStats(50, 3, LeftOut(6, [1, 2, 3, 5, 7, 9]))
    assert [pair[1] for pair in rows(corpus)] == tokenizers.target.encode_batch(["4", "6", "8"])


def test_the_end_symbol_counts_towards_the_longest_sentence(
    parallel: Parallel, tokenizers: Tokenizers, encode: Encode
) -> None:
    lines = ["q", "qz", "qzq", "qzqz"]
    assert [len(ids) for ids in tokenizers.source.encode_batch(lines)] == [1, 2, 3, 4]
    for name, sides in (("s", (lines, ["q"] * 4)), ("t", (["q"] * 4, lines))):
        corpus = encode(parallel(name, *sides), 3)
        assert stats_of(corpus) == EncodingStats(3, 2, long=LeftOut(2, [3, 4]))


def test_statistics_are_a_sentence() -> None:
    stats = EncodingStats(256, 28_990, LeftOut(3, [4, 77, 900]), LeftOut(7, [1, 2, 3, 4, 5]))
    assert str(stats) == (
        "29,000 pairs read, 28,990 kept; left out: 3 with an empty side (lines 4, 77, 900), "
        "7 longer than 256 pieces (lines 1, 2, 3, 4, 5, ...)"
    )
    assert str(EncodingStats(9, 4, LeftOut(1, [2]))) == (
        "5 pairs read, 4 kept; left out: 1 with an empty side (line 2)"
    )
    assert str(EncodingStats(9, 1)) == "1 pair read, 1 kept"


def test_a_corpus_without_usable_pairs_is_refused(
    parallel: Parallel, encode: Encode, tmp_path: Path
) -> None:
    paths = parallel("bad", ["", "a b c d e f g"], ["x", "y"])
    for _ in range(2):
        with pytest.raises(DataError, match="can be used: 2 pairs read, 0 kept.*line 1.*line 2"):
            encode(paths, 4)
    assert not folders_of(tmp_path / "c")
    paths[1].write_text("x\n")
    with pytest.raises(DataError, match=r"bad\.de has 2 line"):
        encode(paths, 4)


def test_a_corpus_is_encoded_only_once(
    parallel: Parallel, encode: Encode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, cache = parallel("odd", ["a", "", "c"], ["x", "y", "z"]), tmp_path / "c"
    first = encode(paths)
    times = {path: path.stat().st_mtime_ns for path in folder_of(cache).iterdir()}
    monkeypatch.setattr(corpus_module, "write_corpus", lambda *_: 1 / 0)
    # The same contents under other names are the same corpus.
    second = encode((paths[0].rename(tmp_path / "s"), paths[1].rename(tmp_path / "t")))
    assert rows(second) == rows(first)
    assert stats_of(second) == stats_of(first)
    assert {path: path.stat().st_mtime_ns for path in folder_of(cache).iterdir()} == times


@pytest.mark.parametrize("change", ["source", "target", "swap", "tokenizer", "max_length"])
def test_every_change_that_matters_is_noticed(
    change: str, parallel: Parallel, tokenizers: Tokenizers, encode: Encode
) -> None:
    paths, both, longest = parallel(), tokenizers, 50
    encode(paths, longest, both)
    if change in ("source", "target"):
        path = paths[change == "target"]
        content = bytearray(path.read_bytes())
        content[0] ^= 1
        path.write_bytes(content)
    elif change == "swap":
        paths = paths[::-1]
    elif change == "tokenizer":
        both = Tokenizers(tokenizers.source, ByteLevelBPE(vocab_size=260).train([]))
    else:
        longest = 6
    again = encode(paths, longest, both)
    lines = [path.read_text("utf-8").splitlines() for path in paths]
    ids = zip(both.source.encode_batch(lines[0]), both.target.encode_batch(lines[1]), strict=True)
    assert rows(again) == [pair for pair in ids if max(map(len, pair)) < longest]


def damaged(content: bytes, damage: str) -> bytes:
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 64]) + content[middle + 1 :]
    forms = {"cut": content[:-1], "longer": content + b"\0\0\0\0", "empty": b"", "flipped": flipped}
    return forms.get(damage, damage.encode())


FILES = [f"{side}.{kind}" for side in SIDES for kind in KINDS] + ["hashes", "outcomes"]
NOTES = ["report.json", "sha256.json"]
DAMAGES = ["missing", "cut", "longer", "empty", "flipped"]
OTHER_SHAPES = ["[]", '{"stats": {}}', '{"../../x": null}', "half"]


@pytest.mark.parametrize(
    ("name", "damage"),
    [*product(FILES + NOTES, DAMAGES), *product(NOTES, OTHER_SHAPES)],
)
def test_a_damaged_cache_is_written_again(
    name: str, damage: str, encode: Encode, tmp_path: Path
) -> None:
    first = encode()
    file = folder_of(tmp_path / "c") / name
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes(damaged(content, damage))
    again = encode()
    assert rows(again) == rows(first) and again.all_stats == first.all_stats
    assert file.read_bytes() == content


def test_an_interrupted_run_leaves_nothing_that_looks_complete(
    encode: Encode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(corpus_module, "asdict", lambda report: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            encode()
    assert not folders_of(tmp_path / "c")
    assert len(encode()) == 4


SAVE = blocks.save_block


class CountedBlocks:
    """Call `save_block`, but raise KeyboardInterrupt after some blocks."""

    def __init__(self, allowed: int):
        self.allowed, self.written = allowed, [0]

    def __call__(self, *arguments: Any) -> None:
        if len(self.written) > self.allowed:
            raise KeyboardInterrupt
        self.written.append(1)
        SAVE(*arguments)


class SameProcess:
    """A pool without processes."""

    def __init__(self, save: CountedBlocks):
        self.save = save

    def __call__(self, *_: Any, **__: Any) -> "SameProcess":
        return self

    def __enter__(self) -> "SameProcess":
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, _: object, *arguments: Any) -> "Future[None]":
        future: Future[None] = Future()
        future.set_result(self.save(*arguments))
        return future


def test_an_interrupted_encoding_continues_where_it_stopped(
    parallel: Parallel,
    tokenizers: Tokenizers,
    encode: Encode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tagged = Tokenizers(tokenizers.source.with_tags(["t"]), tokenizers.target)
    long = ["b " * 30, "", "c"] * 7
    components = [
        Component("one", TwoFiles(*parallel("one", long, ["x"] * 21)), tag="t"),
        Component("two", TwoFiles(*parallel("two"))),
    ]

    def encoded(allowed: int, cache: str = "c") -> list[tuple[list[int], list[int]]]:
        counted = CountedBlocks(allowed)
        monkeypatch.setattr(blocks, "ProcessPoolExecutor", SameProcess(counted))
        try:
            corpus = encode(components, 25, tagged, cache)
        finally:
            counts.append(len(counted.written) - 1)
        reports.append(corpus.all_stats)
        return rows(corpus)

    counts: list[int] = []
    reports: list[Any] = []
    whole = encoded(99, "whole")
    assert counts.pop() == 0, "a small text needs no process"
    monkeypatch.setattr(blocks, "BLOCK_PAIRS", 4)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            encoded(2)
    left = sorted((tmp_path / "c").rglob("*.npz"))
    assert len(left) == 4
    left[1].write_bytes(left[1].read_bytes()[:-9])  # a torn one is encoded again
    assert encoded(99) == whole
    assert counts == [2, 2, 3], "21 pairs are 6 blocks"
    assert reports[0] == reports[1]
    assert not list((tmp_path / "c").rglob("*.npz"))


def test_several_processes_encode_like_one_and_a_killed_one_loses_nothing(
    parallel: Parallel, encode: Encode, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = parallel("more", GERMAN * 5, ENGLISH * 5)
    whole = encode(paths, cache="whole")
    monkeypatch.setattr(blocks, "BLOCK_PAIRS", 3)
    with monkeypatch.context() as patch, pytest.raises(DataError, match="was killed"):
        patch.setattr(blocks, "save_block", end_process)
        encode(paths)
    several = encode(paths)
    assert rows(several) == rows(whole) and several.all_stats == whole.all_stats
    assert several.hashes.tolist() == whole.hashes.tolist()


@pytest.mark.parametrize("bytes_of_a_block", [1, 40, 2**24])
def test_the_waiting_text_is_bounded_in_bytes(
    parallel: Parallel, encode: Encode, monkeypatch: pytest.MonkeyPatch, bytes_of_a_block: int
) -> None:
    """At most 2 blocks per core wait, while one is read and one written."""
    components = lines_of(*parallel("long", ["ä" * 50, *GERMAN] * 4, ["é" * 9, *ENGLISH] * 4))
    longest = max(blocks.count_bytes(pair) for pair in components[0].text.pairs())
    whole = encode(components, 25, cache="whole")
    monkeypatch.setattr(blocks, "BLOCK_PAIRS", 5)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", bytes_of_a_block)
    monkeypatch.setattr(blocks, "usable_cores", lambda: 2)
    monkeypatch.setattr(blocks, "ProcessPoolExecutor", SameProcess(CountedBlocks(99)))
    waiting, most = 0, 0

    def read(text: TwoFiles) -> Iterator[tuple[str, str]]:
        nonlocal waiting, most
        for pair in pairs(text):
            waiting += blocks.count_bytes(pair)
            most = max(most, waiting)
            yield pair

    def take(path: Path, future: object) -> Block:
        nonlocal waiting
        block = wait_for_block(path, None)
        first, last = map(int, path.stem.split("-"))
        known = list(pairs(components[0].text))[first - 1 : last]
        waiting -= sum(map(blocks.count_bytes, known))
        return block

    pairs, wait_for_block = TwoFiles.pairs, blocks.wait_for_block
    monkeypatch.setattr(TwoFiles, "pairs", read)
    monkeypatch.setattr(blocks, "wait_for_block", take)
    corpus = encode(components, 25)
    assert rows(corpus) == rows(whole) and corpus.all_stats == whole.all_stats
    assert waiting == 0 and most <= 6 * (bytes_of_a_block + longest)
    assert most <= 6 * 5 * longest


def test_encoding_does_not_import_torch() -> None:
    script = "import sys, seq2seq.data.corpus.blocks; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script]) == b"False\n"


def end_process(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_ids_take_as_few_bytes_as_the_vocabulary_allows(
    tokenizers: Tokenizers, encode: Encode
) -> None:
    small = CharacterLevel().train(GERMAN)
    assert small.size <= 256 < tokenizers.target.size
    corpus = encode(both=Tokenizers(small, tokenizers.target))
    assert [corpus.source(0).itemsize, corpus.target(0).itemsize] == [1, 2]
    assert [pair[0] for pair in rows(corpus)] == small.encode_batch(GERMAN)


def test_advice_on_memory_pages_changes_no_data(parallel: Parallel, encode: Encode) -> None:
    corpus = encode(parallel("more", GERMAN * 100, ENGLISH * 100))
    before = rows(corpus)
    lengths = corpus.source_lengths, corpus.target_lengths
    for array in (*lengths, corpus.hashes):
        assert isinstance(array.base, mmap.mmap), "else it is told nothing"
    corpus.read_ahead(np.arange(len(corpus)))
    corpus.read_ahead(np.empty(0, np.int32))
    corpus.release_memory()
    assert rows(corpus) == before


@pytest.mark.skipif(not Path("/proc/self/smaps").is_file(), reason="needs Linux")
def test_reading_a_corpus_leaves_no_page_in_memory(
    parallel: Parallel, encode: Encode, tmp_path: Path
) -> None:
    def resident() -> int:
        """KiB of the files of this corpus that are in memory."""
        of_file, kib = False, 0
        for line in smaps.read_text(encoding="utf-8").splitlines():
            if not line.split()[0].endswith(":"):
                of_file = str(tmp_path) in line
            elif of_file and line.startswith("Rss:"):
                kib += int(line.split()[1])
        return kib

    smaps = Path("/proc/self/smaps")
    corpus = encode(parallel("more", GERMAN * 5000, ENGLISH * 5000))
    assert corpus.source_lengths.sum() > 0
    assert resident() > 0, "lengths are mapped"
    corpus.release_memory()
    every = np.arange(len(corpus))
    corpus.read_ahead(every)
    expected = int(corpus.target_lengths.sum()) + len(corpus)
    corpus.release_memory()
    assert sum(len(corpus.target(row)) + 1 for row in every) == expected
    assert resident() == 0
    assert corpus.count_tokens(every) == expected
    pages = corpus.target_lengths.nbytes / 1024 + 8
    assert resident() <= pages, "only the lengths of that side are mapped"
