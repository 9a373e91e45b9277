"""A file is either completely written or left unchanged."""

import errno
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.machines import can_isolate, run_on_two

from seq2seq.base.durable import STALE, create_text, replacing, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_new_content_replaces_the_old_only_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "best.ckpt"
    file.write_bytes(b"before")
    with replacing(file) as opened:
        opened.write(b"after, and longer")
        opened.flush()
        assert file.read_bytes() == b"before"
    assert file.read_bytes() == b"after, and longer"
    assert names(tmp_path) == ["best.ckpt"]


def test_a_file_is_synced_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replace"), replace(*names)))
    write_text(tmp_path / "a", "ä")
    assert done == ["fsync", "replace", "fsync"]  # the file, its name, the folder of the name
    assert (tmp_path / "a").read_bytes() == "ä".encode()


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.txt"
    with pytest.raises(FileNotFoundError) as caught:
        write_text(path, "a")
    assert caught.value.filename == str(path)


def test_a_failed_write_leaves_the_old_content_and_no_other_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "before")
    with pytest.raises(KeyError), replacing(tmp_path / "a") as file:
        file.write(b"half")
        raise KeyError
    assert (tmp_path / "a").read_text() == "before" and names(tmp_path) == ["a"]


KILLED = """
import os, signal, sys
from pathlib import Path
from seq2seq.base.durable import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_leftovers_of_a_killed_process_are_removed_once_they_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a[1].ckpt"
    write_text(file, "before")
    subprocess.run([sys.executable, "-c", KILLED, str(file)])
    (stage,) = set(tmp_path.iterdir()) - {file}
    assert file.read_text() == "before" and platform.node()[:20] in stage.name
    monkeypatch.setattr(time, "time", lambda: 4e9)  # the clock of this machine is wrong
    write_text(file, "after")
    assert file.read_text() == "after" and stage.exists(), "another machine may be writing it"
    for age, left in ((STALE - 60, True), (STALE + 60, False)):
        changed = file.stat().st_mtime - age
        os.utime(stage, (changed, changed))
        write_text(tmp_path / "b", "another file of the folder")
        assert stage.exists() == left
    assert names(tmp_path) == ["a[1].ckpt", "b"]


def test_an_unfinished_folder_is_kept_while_one_of_its_files_is_recent(tmp_path: Path) -> None:
    stage = tmp_path / ".corpus.node7.0123456789abcdef.unfinished"
    stage.mkdir()
    (stage / "ids").touch()
    os.utime(stage, (0, 0))
    write_text(tmp_path / "a", "")
    assert (stage / "ids").exists()
    os.utime(stage / "ids", (0, 0))
    os.utime(stage, (0, 0))
    write_text(tmp_path / "a", "")
    assert names(tmp_path) == ["a"]


WRITER = """
import sys
from pathlib import Path
from seq2seq.base.durable import replacing
machine, folder, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
whole = ["a" * 200_000, "b" * 300_000]
content = whole[machine == "b"]
for number in range(count):
    with replacing(folder / f"file-{number % 3}") as file:
        for begin in range(0, len(content), 50_000):
            file.write(content[begin : begin + 50_000].encode())
            file.flush()
    for path in folder.glob("file-*"):
        assert path.read_text() in whole, "a mixture"
"""


def test_two_machines_write_one_file(tmp_path: Path) -> None:
    run_on_two(WRITER, tmp_path, 40)
    assert names(tmp_path) == ["file-0", "file-1", "file-2"]


@pytest.mark.slow
@pytest.mark.skipif(not can_isolate(), reason="needs unshare, and the right to use it")
def test_two_containers_write_one_file(tmp_path: Path) -> None:
    run_on_two(WRITER, tmp_path, 300, isolated=True)
    assert names(tmp_path) == ["file-0", "file-1", "file-2"]


CREATOR = """
import sys
from pathlib import Path
from seq2seq.base.durable import create_text
machine, folder = sys.argv[1], Path(sys.argv[2])
created = 0
for number in range(40):
    path = folder / str(number)
    try:
        create_text(path, machine * 1000)
        created += 1
    except FileExistsError:
        assert path.read_text() in ("a" * 1000, "b" * 1000), "half of it was seen"
(folder / f"created-by-{machine}").write_text(str(created))
"""


def test_only_one_of_two_machines_creates_a_file(tmp_path: Path) -> None:
    run_on_two(CREATOR, tmp_path)
    assert sum(int(path.read_text()) for path in tmp_path.glob("created-by-*")) == 40
    assert len(names(tmp_path)) == 42


def test_a_file_is_created_once_on_disks_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    create_text(tmp_path / "a", "first")
    with pytest.raises(FileExistsError):
        create_text(tmp_path / "a", "second")
    assert (tmp_path / "a").read_text() == "first" and names(tmp_path) == ["a"]


def test_symbolic_links_long_names_and_modes_are_kept(tmp_path: Path) -> None:
    file = tmp_path / ("ä" * 120 + ".ckpt")
    write_text(file, "before")
    file.chmod(0o640)
    link = tmp_path / "last.ckpt"
    link.symlink_to(file)
    write_text(link, "after")
    assert link.is_symlink() and file.read_text() == "after"
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_file_is_written_where_folders_cannot_be_synced(
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
