import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.data.cache import cached_folder, digest
from seq2seq.errors import DataError


def whole(folder: Path) -> bool:
    return (folder / "done").exists()


def write(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    (folder / "done").write_text("by this run")


def test_a_folder_is_written_once(tmp_path: Path) -> None:
    folder = cached_folder(tmp_path / "deep" / "cache", "a", whole, write)
    assert folder == tmp_path / "deep" / "cache" / "a"
    (folder / "done").write_text("by the first")
    cached_folder(tmp_path / "deep" / "cache", "a", whole, write)
    assert (folder / "done").read_text() == "by the first"


def test_the_remains_of_a_killed_run_are_cleared_away(tmp_path: Path) -> None:
    for name in ("a", "a.unfinished"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").touch()
    folder = cached_folder(tmp_path, "a", whole, write)
    assert [path.name for path in folder.iterdir()] == ["done"]
    assert not (tmp_path / "a.unfinished").exists()


def test_a_cache_that_cannot_be_written_says_how_to_choose_another(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot be written: .*data\.cache=FOLDER"):
        cached_folder(tmp_path / "file", "a", whole, write)


def test_of_several_processes_one_writes(tmp_path: Path) -> None:
    program = """if True:
        import os, sys, time
        from pathlib import Path
        from seq2seq.data.cache import cached_folder

        def write(folder):
            with open("writers", "a") as file:
                file.write(f"{os.getpid()}\\n")
            while len(list(Path().glob("started.*"))) < 3:
                time.sleep(0.01)
            (folder / "done").touch()

        Path(f"started.{os.getpid()}").touch()
        folder = cached_folder(Path("cache"), "a", lambda f: (f / "done").exists(), write)
        assert (folder / "done").exists()
    """
    command = [sys.executable, "-c", program]
    running = [subprocess.Popen(command, cwd=tmp_path) for _ in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert len((tmp_path / "writers").read_text().splitlines()) == 1


def test_a_digest_tells_settings_apart() -> None:
    assert len({digest(parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], ["c", "ab"])}) == 4
    assert digest(["ab"]) == digest(["ab"])
