import json
import os
from pathlib import Path

import pytest

from seq2seq.base.errors import DataError
from seq2seq.data.corpus import cache
from seq2seq.data.corpus.cache import FileMemo
from seq2seq.data.text.lines import count_lines


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as old."""
    monkeypatch.setattr(cache, "SETTLED_NS", -(10**9))
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    return path


@pytest.fixture
def memo(tmp_path: Path) -> FileMemo:
    return FileMemo(tmp_path / "c")


def refuse(path: Path) -> int:
    raise AssertionError("read again")


def test_an_unchanged_file_is_read_once(file: Path, tmp_path: Path) -> None:
    assert FileMemo(tmp_path / "c").recall(file, "lines", count_lines) == 2
    assert FileMemo(tmp_path / "c").recall(file, "lines", refuse) == 2


def test_results_about_a_file_are_kept_apart(file: Path, memo: FileMemo, tmp_path: Path) -> None:
    assert memo.recall(file, "one", lambda path: 1) == 1
    assert memo.recall(file, "two", lambda path: "2") == "2"
    assert memo.recall(file, "one", refuse) == 1
    other = tmp_path / "b.txt"
    other.write_text("three\n")
    assert memo.recall(other, "one", lambda path: 3) == 3


@pytest.mark.parametrize("change", ["size", "content", "time", "replaced"])
def test_a_changed_file_is_read_again(
    change: str, file: Path, memo: FileMemo, tmp_path: Path
) -> None:
    assert memo.recall(file, "text", Path.read_text) == "one\ntwo\n"
    before = file.stat()
    if change == "time":
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        assert memo.recall(file, "text", lambda path: "new") == "new"
        return
    while True:  # until the clock of the file system has moved on
        if change == "replaced":
            other = tmp_path / "b.txt"
            other.write_text("ONE\nTWO\n")
            os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
            os.replace(other, file)
        else:
            file.write_text("three\n" if change == "size" else "ONE\nTWO\n")
        if file.stat().st_ctime_ns != before.st_ctime_ns:
            break
    assert memo.recall(file, "text", Path.read_text) == file.read_text()


def test_a_file_that_changed_just_now_is_not_remembered(
    file: Path, memo: FileMemo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memo.recall(file, "lines", lambda path: path.write_text("longer than before\n"))
    assert not (tmp_path / "c").exists()
    monkeypatch.undo()  # the file is new again
    assert memo.recall(file, "lines", count_lines) == 1
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b"\xff", b'{"state": 1}'])
def test_a_damaged_note_only_costs_time(damage: bytes, file: Path, tmp_path: Path) -> None:
    memo = FileMemo(tmp_path / "c")
    memo.recall(file, "lines", count_lines)
    [note] = (tmp_path / "c" / "stamps").iterdir()
    note.write_bytes(damage)
    assert memo.recall(file, "lines", count_lines) == 2
    assert json.loads(note.read_text())["known"] == {"lines": 2}


def test_notes_that_cannot_be_written_only_cost_time(file: Path, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file where the folder should be")
    assert FileMemo(tmp_path / "c").recall(file, "lines", count_lines) == 2


def test_a_fault_is_not_remembered(file: Path, memo: FileMemo) -> None:
    file.write_bytes(b"\xff\n")
    for _ in range(2):
        with pytest.raises(DataError, match="not UTF-8"):
            memo.recall(file, "lines", count_lines)


def test_the_hash_is_that_of_the_bytes(file: Path, memo: FileMemo, tmp_path: Path) -> None:
    file.write_bytes(b"abc")
    # The first example of FIPS 180.
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert memo.sha256(file) == expected
    with pytest.raises(DataError, match="cannot be read"):
        memo.sha256(tmp_path / "none")
