import bz2
import gzip
import io
import lzma
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.alignment.links import read_alignment
from seq2seq.base.errors import ConfigError, DataError
from seq2seq.cli.lines import InputLines
from seq2seq.data.text import lines as text
from seq2seq.data.text.lines import (
    check_parallel,
    count_lines,
    find_side,
    parallel_paths,
    read_lines,
    similar_names,
)
from seq2seq.metrics.scoring import clean_line

sentences = st.lists(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\n\ufeff"), max_size=20
    ).filter(lambda line: not line.endswith("\r")),
    min_size=1,
)


def write(folder: Path, content: bytes, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@given(lines=sentences)
def test_only_a_line_feed_ends_a_line(
    lines: list[str], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.mktemp("text"), "".join(f"{s}\n" for s in lines).encode(), name)
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\0"])
def test_a_separator_of_another_kind_stays_in_its_line(mark: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"one{mark}two\nthree\n".encode())
    assert list(read_lines(path)) == [f"one{mark}two", "three"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        # A carriage return before the line feed belongs to the ending.
        ("one\r\n\r\ntwo\r\r\nthree\r", ["one", "", "two\r", "three\r"]),
        ("one\ntwo", ["one", "two"]),  # a last line without its end counts
        ("one\ntwo\n", ["one", "two"]),
        ("one\ntwo\n\n", ["one", "two", ""]),
        # Byte order marks are dropped wherever they are.
        ("\ufeffone\n\ufefftwo thr\ufeffee\n", ["one", "two three"]),
        ("\ufeff\ntwo\n", ["", "two"]),
    ],
)
def test_endings_and_byte_order_marks_are_dropped(
    content: str, lines: list[str], tmp_path: Path
) -> None:
    assert list(read_lines(write(tmp_path, content.encode()))) == lines


def test_byte_order_marks_are_dropped_in_translation_as_in_training() -> None:
    assert clean_line("\ufeffone\n") == "one" and clean_line("thr\ufeffee") == "three"


def test_reading_does_not_hold_the_file_in_memory(tmp_path: Path) -> None:
    path = write(tmp_path, b"a sentence of some words\n" * 100_000)
    tracemalloc.start()
    try:
        assert count_lines(path) == 100_000
        assert tracemalloc.get_traced_memory()[1] < path.stat().st_size / 10
    finally:
        tracemalloc.stop()


def test_broken_utf8_is_named_by_line_and_byte(tmp_path: Path) -> None:
    path = write(tmp_path, b"good\nna\xefve\ngood\n")
    with pytest.raises(DataError, match=r"a\.txt, line 2, byte 3: 0xef is not UTF-8"):
        count_lines(path)


@pytest.mark.parametrize("shift", range(-4, 3))
def test_a_character_across_two_reads_is_whole_and_a_cut_one_is_reported(
    shift: int, tmp_path: Path
) -> None:
    before = b"x" * (io.DEFAULT_BUFFER_SIZE + shift)
    path = write(tmp_path, before + "😀\nnext\n".encode())
    assert list(read_lines(path)) == [before.decode() + "😀", "next"]
    path = write(tmp_path, b"first\n" + before[6:] + "😀".encode()[:-1] + b"\nnext\n")
    with pytest.raises(DataError, match=f"line 2, byte {len(before) - 5}:"):
        count_lines(path)


@pytest.mark.parametrize("content", [b"", b"one\ntwo\n", "ä\n".encode() * 50_000])
def test_gzip_is_known_by_its_bytes_and_not_by_its_name(content: bytes, tmp_path: Path) -> None:
    members = gzip.compress(content) + gzip.compress(b"more\n") + b"\0" * 512
    assert b"".join(f"{x}\n".encode() for x in read_lines(write(tmp_path, members))) == (
        content + b"more\n"
    )
    plain = tmp_path / "plain.gz"
    plain.write_bytes(b"one\ntwo\n")
    assert list(read_lines(plain)) == ["one", "two"]


WORDS = "Ein Hund läuft.\nДва слова здесь\n"
NO_TEXTS = {
    **{form: WORDS.encode(form) for form in ("utf-16", "utf-32", "utf-16-le", "utf-16-be")},
    **{f"Russian {form}": WORDS[16:].encode(form) for form in ("utf-16-le", "utf-16-be")},
    "utf-32 without a mark": WORDS.encode("utf-32-le"),
    "zip": b"PK\x03\x04\x14more",
    "bzip2": bz2.compress(b"word\n"),
    "xz": lzma.compress(b"word\n"),
    "zstd": b"\x28\xb5\x2f\xfdmore",
    "a picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "gzip twice": gzip.compress(gzip.compress(b"word\n", mtime=0), mtime=0),
    "UTF-16 in gzip": gzip.compress(WORDS.encode("utf-16"), mtime=0),
}


@pytest.mark.parametrize("content", NO_TEXTS.values(), ids=NO_TEXTS)
def test_files_that_are_not_text_are_refused_by_all_readers(content: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, content)
    with pytest.raises(DataError, match=r"a\.txt is not UTF-8 text: it (looks like|holds)"):
        count_lines(path)
    with pytest.raises(DataError, match="standard input is not UTF-8 text"):
        list(InputLines(io.BytesIO(content)))
    with pytest.raises(DataError, match="the alignment .* is not UTF-8 text"):
        read_alignment(path)


def test_utf16_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    for form in ("UTF-16", "UTF-16LE", "UTF-16BE", "UTF-32"):
        with pytest.raises(DataError, match=f"iconv -f {form} -t UTF-8"):
            count_lines(write(tmp_path, WORDS.encode(form)))


def test_a_gzip_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"sentence {i * i}\n" for i in range(500)).encode())
    path = tmp_path / "a.gz"
    for end in [*range(1, 30), len(whole) // 2, *range(len(whole) - 9, len(whole))]:
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match="not a whole gzip file"):
            count_lines(path)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    with pytest.raises(DataError):  # a damaged one
        count_lines(path)


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
def test_an_empty_file_is_refused(content: bytes, name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is empty"):
        count_lines(write(tmp_path, content, name))
    (tmp_path / name).write_bytes(b"")  # not even a header of gzip
    with pytest.raises(DataError, match="is empty"):
        count_lines(tmp_path / name)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "LONGEST_LINE", 10)
    assert list(read_lines(write(tmp_path, b"ok\n123456789\n1234567890"))) == [
        "ok",
        "123456789",
        "1234567890",
    ]
    with pytest.raises(DataError, match="line 2: longer than 10 bytes"):
        count_lines(write(tmp_path, b"ok\n1234567890\n"))


def test_a_missing_file_is_refused_with_the_names_of_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, b"x\n", "train.en.gz")
    write(tmp_path, b"x\n", "other")
    with pytest.raises(DataError, match=r"train\.en does not exist.*: train\.en\.gz\.$"):
        count_lines(tmp_path / "train.en")
    with pytest.raises(DataError, match="holds: other, train.en.gz"):
        count_lines(tmp_path / "qqq")
    with pytest.raises(DataError, match="There is no folder"):
        count_lines(tmp_path / "nowhere" / "train.en")


def test_the_neighbours_of_a_missing_file_are_those_that_one_could_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".gitignore", *(f"f{number}" for number in range(10))):
        write(tmp_path, b"x\n", name)
    monkeypatch.chdir(tmp_path)
    shown = ", ".join(f"f{number}" for number in range(8))
    assert similar_names(Path("qqq")) == f"{tmp_path} holds: {shown} and 2 more."
    assert similar_names(Path(".gitignor")) == f"Near it in {tmp_path}: .gitignore."


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        count_lines(tmp_path)


def test_a_side_may_be_plain_or_zipped(tmp_path: Path) -> None:
    plain = write(tmp_path, b"x\n", "test_2016.flickr.de")
    zipped = write(tmp_path, b"x\n", "test_2016.flickr.en.gz")
    assert find_side(tmp_path / "test_2016.flickr", "de") == plain
    assert find_side(str(tmp_path / "test_2016.flickr"), "en") == zipped


def test_two_files_of_one_side_are_refused(tmp_path: Path) -> None:
    write(tmp_path, b"x\n", "train.de")
    write(tmp_path, b"y\n", "train.de.gz")
    with pytest.raises(DataError, match=r"both .*train\.de and .*train\.de\.gz exist"):
        find_side(tmp_path / "train", "de")


def test_a_wrong_prefix_is_refused_with_the_names_that_were_tried(tmp_path: Path) -> None:
    write(tmp_path, b"x\n", "train.de")
    write(tmp_path, b"x\n", "train.en")
    with pytest.raises(DataError, match=r"data\.train=.*neither .*train\.fr nor .*train\.fr\.gz"):
        parallel_paths(str(tmp_path / "train"), "de", "fr", "data.train")
    with pytest.raises(DataError, match=r"itself a file: give the part before \.de"):
        find_side(tmp_path / "train.de", "de")


def test_a_list_names_the_two_files_themselves(tmp_path: Path) -> None:
    paths = write(tmp_path, b"x\n", "a"), write(tmp_path, b"x\n", "b")
    spec = [str(path) for path in paths]
    assert parallel_paths(spec, "de", "en", "data.valid") == paths
    with pytest.raises(DataError, match=r"data\.valid=.*c is not a file.* holds: a, b"):
        parallel_paths([spec[0], str(tmp_path / "c")], "de", "en", "data.valid")
    with pytest.raises(ConfigError, match=r"data\.valid lists 1 files; expected two"):
        parallel_paths(spec[:1], "de", "en", "data.valid")


def test_files_of_unequal_length_are_refused_with_both_counts(tmp_path: Path) -> None:
    source = write(tmp_path, b"1\n2\n3", "source")
    target = write(tmp_path, b"1\n2\n3\n", "target")
    assert check_parallel(source, target, "scoring") == 3
    target = write(tmp_path, b"1\n2\n", "target")
    with pytest.raises(DataError, match=r"source has 3 line\(s\), .*target 2\..*scoring"):
        check_parallel(source, target, "scoring")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_before_it_is_read(tmp_path: Path) -> None:
    # The pipe has no writer: opening it would block forever.
    os.mkfifo(tmp_path / "pipe")
    source = write(tmp_path, b"1\n2\n", "source")
    for files in ((source, tmp_path / "pipe"), (tmp_path / "pipe", source)):
        with pytest.raises(DataError, match=r"pipe is a pipe .* read once.*zcat a\.gz > a\.txt"):
            check_parallel(*files, "scoring")
    with pytest.raises(DataError, match=r"data\.train=.*pipe is a pipe"):
        parallel_paths([str(source), str(tmp_path / "pipe")], "de", "en", "data.train")
    with pytest.raises(DataError, match="directory"):
        check_parallel(source, tmp_path, "scoring")
