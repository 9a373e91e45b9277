import errno
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from helpers.machines import can_isolate, run_on_two

from seq2seq.base.errors import DataError
from seq2seq.data.corpus.cache import FileMemo, compute_once, digest, is_sealed


def write(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    (folder / "done").write_text("by this run")


def test_a_folder_is_written_once(tmp_path: Path) -> None:
    folder = compute_once(tmp_path / "deep" / "cache", "a", write)
    assert folder == tmp_path / "deep" / "cache" / "a"
    times = (folder / "done").stat()
    compute_once(tmp_path / "deep" / "cache", "a", write)
    assert (folder / "done").stat() == times


def test_a_changed_file_is_written_again(tmp_path: Path) -> None:
    """Even if it has the size and the times of the original file."""
    done = compute_once(tmp_path, "a", write) / "done"
    times = done.stat()
    done.write_text("by another!")
    os.utime(done, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert done.stat().st_size == times.st_size
    assert (compute_once(tmp_path, "a", write) / "done").read_text() == "by this run"


def test_a_folder_counts_as_finished_only_once_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="cannot be written: No space left on device"):
            compute_once(tmp_path, "a", write)
    assert not is_sealed(tmp_path / "a", FileMemo(tmp_path))
    assert is_sealed(compute_once(tmp_path, "a", write), FileMemo(tmp_path))


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    stage = tmp_path / ".a.node7.0123456789abcdef.unfinished"
    for folder in (tmp_path / "a", stage):
        folder.mkdir()
        (folder / "half").touch()
    os.utime(stage / "half", (0, 0))
    os.utime(stage, (0, 0))
    folder = compute_once(tmp_path, "a", write)
    assert {path.name for path in folder.iterdir()} == {"done", "sha256.json"}
    assert {path.name for path in tmp_path.iterdir()} <= {"a", "a.lock", "stamps"}


def test_a_cache_that_cannot_be_written_says_how_to_choose_another(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot be written: .*data\.cache=FOLDER"):
        compute_once(tmp_path / "file", "a", write)


def test_only_one_of_several_processes_writes(tmp_path: Path) -> None:
    program = """if True:
        import os, sys, time
        from pathlib import Path
        from seq2seq.data.corpus.cache import compute_once

        def write(folder):
            with open("writers", "a") as file:
                file.write(f"{os.getpid()}\\n")
            while len(list(Path().glob("started.*"))) < 3:
                time.sleep(0.01)
            (folder / "done").touch()

        Path(f"started.{os.getpid()}").touch()
        folder = compute_once(Path("cache"), "a", write)
        assert (folder / "done").exists()
    """
    command = [sys.executable, "-c", program]
    running = [subprocess.Popen(command, cwd=tmp_path) for _ in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert len((tmp_path / "writers").read_text().splitlines()) == 1


TWO = """
import sys
from pathlib import Path
from seq2seq.data.corpus.cache import compute_once
machine, cache, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])

def write(folder):
    for name in ("ids", "offsets"):
        (folder / name).write_text(machine * 1000)
        time.sleep(0.001)

for number in range(count):
    if number % 5 == 0 and (cache / "0" / "ids").exists():
        (cache / "0" / "ids").write_text("damaged")
    name = str(number if number % 5 else 0)
    folder = compute_once(cache, name, write)
    if number % 5:
        texts = {(folder / name).read_text() for name in ("ids", "offsets")}
        assert texts in ({"a" * 1000}, {"b" * 1000}), "a mixture"
"""


def test_two_machines_write_one_cache_where_locks_do_not_hold(tmp_path: Path) -> None:
    run_on_two(TWO, tmp_path, 40)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
@pytest.mark.skipif(not can_isolate(), reason="needs unshare, and the right to use it")
def test_two_containers_write_one_cache(tmp_path: Path) -> None:
    run_on_two(TWO, tmp_path, 300, isolated=True)
    assert not list(tmp_path.glob(".*"))


def test_a_faster_process_may_take_the_folder_away(tmp_path: Path) -> None:
    def slower(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:  # the lock of this machine holds here alone
            patch.setattr("filelock.FileLock", lambda path: nullcontext())
            compute_once(tmp_path, "a", write)
        (folder / "gone" / "blocks").touch()

    assert (compute_once(tmp_path, "a", slower) / "done").read_text() == "by this run"
    with pytest.raises(DataError, match="No such file"):
        compute_once(tmp_path, "b", lambda folder: (folder / "gone" / "blocks").touch())


def test_a_digest_tells_settings_apart() -> None:
    assert len({digest(parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], ["c", "ab"])}) == 4
    assert digest(["ab"]) == digest(["ab"])
