"""A file is complete or unchanged."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.durable import replacing, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_takes_the_place_of_what_was_there_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "best.ckpt"
    file.write_bytes(b"before")
    with replacing(file) as opened:
        opened.write(b"after, and longer")
        opened.flush()
        assert file.read_bytes() == b"before"
    assert file.read_bytes() == b"after, and longer"
    assert names(tmp_path) == ["best.ckpt"]


def test_it_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replace"), replace(*names)))
    write_text(tmp_path / "a", "ä")
    assert done == ["fsync", "replace", "fsync"]  # the file, its name, the folder of the name
    assert (tmp_path / "a").read_bytes() == "ä".encode()


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "before")
    with pytest.raises(KeyError), replacing(tmp_path / "a") as file:
        file.write(b"half")
        raise KeyError
    assert (tmp_path / "a").read_text() == "before" and names(tmp_path) == ["a"]


KILLED = """
import os, signal, sys
from pathlib import Path
from seq2seq.durable import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes(tmp_path: Path) -> None:
    file = tmp_path / "a[1].ckpt"
    write_text(file, "before")
    subprocess.run([sys.executable, "-c", KILLED, str(file)])
    assert file.read_text() == "before" and len(names(tmp_path)) == 2
    write_text(file, "after")
    assert file.read_text() == "after" and names(tmp_path) == ["a[1].ckpt"]


def test_links_names_of_any_length_and_modes_are_kept(tmp_path: Path) -> None:
    file = tmp_path / ("ä" * 120 + ".ckpt")
    write_text(file, "before")
    file.chmod(0o640)
    link = tmp_path / "last.ckpt"
    link.symlink_to(file)
    write_text(link, "after")
    assert link.is_symlink() and file.read_text() == "after"
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_folder_that_cannot_be_synced_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def of_files_only(opened: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{opened}")).is_dir():
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(opened)

    monkeypatch.setattr(os, "fsync", of_files_only)
    write_text(tmp_path / "a", "whole")
    assert (tmp_path / "a").read_text() == "whole"
