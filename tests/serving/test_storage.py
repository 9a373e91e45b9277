"""Records are whole, bounded, and only their client's."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.serving import storage as module
from seq2seq.serving.storage import Kind, Storage, UnknownRecordError

KIND = Kind("glossaries", records=5, size=200)
BRIEF = Kind("documents", records=5, size=200, seconds=60)
HOSTILE = [
    *("", ".", "..", "../../etc/passwd", "/etc/passwd", "a\0b", "*", "a" * 5000, "\n", "\ud800"),
    *("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000\n"),
    "../glossaries/00000000-0000-0000-0000-000000000000",
]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "kept" / "here")


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_record_is_what_was_kept_until_it_is_changed_or_deleted(storage: Storage) -> None:
    content = b"\n\x00{}\n"
    made = storage.create(KIND, "a", {"name": "Ä\n"}, content)
    assert storage.read(KIND, "a", made.id) == made
    assert made.metadata == {"name": "Ä\n"} and made.content == content
    assert storage.list_records(KIND, "a") == [made._replace(content=b"")]
    changed = storage.update(KIND, "a", made.id, lambda old: ({"name": "b"}, old.content * 2))
    assert storage.read(KIND, "a", made.id) == changed
    assert changed == (made.id, made.created_at, {"name": "b"}, content * 2)
    storage.delete(KIND, "a", made.id)
    assert storage.list_records(KIND, "a") == [] and files_in(storage.folder) == []
    for use in (storage.read, storage.delete):
        with pytest.raises(UnknownRecordError):
            use(KIND, "a", made.id)


def test_a_client_has_nothing_but_its_own(storage: Storage) -> None:
    own = storage.create(KIND, "a", {}, b"a")
    storage.create(KIND, "b", {}, b"b")
    assert [each.id for each in storage.list_records(KIND, "a")] == [own.id]
    for client, kind in (("b", KIND), ("", KIND), ("a", BRIEF)):
        with pytest.raises(UnknownRecordError, match="not one of your"):
            storage.read(kind, client, own.id)
        with pytest.raises(UnknownRecordError):
            storage.delete(kind, client, own.id)
    assert {each.id for each in storage.list_all(KIND)} > {own.id}


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_files_do_not_come_from_clients(storage: Storage, name: str) -> None:
    storage.create(KIND, "a", {}, b"")
    before = files_in(storage.folder.parents[1])
    for client in ("a", name.encode("utf-8", "replace").decode()):
        for use in (storage.read, storage.delete):
            with pytest.raises(UnknownRecordError):
                use(KIND, client, name)
        storage.create(KIND, client, {}, b"")
    after = files_in(storage.folder.parents[1])
    assert len(after) == len(before) + 2
    assert all(path.parents[2] == storage.folder for path in after)


def test_each_client_has_room_for_so_many_and_all_for_so_many_clients(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLIENTS", 2)
    for _ in range(KIND.records):
        last = storage.create(KIND, "a", {}, b"")
    with pytest.raises(ConfigError, match="you have 5 glossaries already"):
        storage.create(KIND, "a", {}, b"")
    storage.create(KIND, "b", {}, b"")
    with pytest.raises(ConfigError, match="of 2 clients"):
        storage.create(KIND, "c", {}, b"")
    with pytest.raises(ConfigError, match="may have 200 bytes each"):
        storage.create(KIND, "b", {}, b"x" * 200)
    with pytest.raises(ConfigError, match="may have 200 bytes each"):
        storage.update(KIND, "a", last.id, lambda old: ({"name": "x" * 200}, b""))
    assert storage.read(KIND, "a", last.id) == last
    storage.delete(KIND, "a", last.id)
    storage.create(KIND, "a", {}, b"")
    (single,) = storage.list_records(KIND, "b")
    storage.delete(KIND, "b", single.id)  # makes room for another client
    storage.create(KIND, "c", {}, b"")


def test_records_expire(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KINDS", (KIND, BRIEF))
    kept, brief = (storage.create(kind, "a", {}, b"") for kind in (KIND, BRIEF))
    storage.expire()
    assert storage.read(BRIEF, "a", brief.id) == brief
    for path in files_in(storage.folder):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - BRIEF.seconds - 1))
    with pytest.raises(UnknownRecordError):
        storage.read(BRIEF, "a", brief.id)
    assert storage.list_records(BRIEF, "a") == [] and len(files_in(storage.folder)) == 2
    storage.expire()
    assert [path.name for path in files_in(storage.folder)] == [kept.id]


def test_changes_at_once_are_made_one_after_the_other(storage: Storage) -> None:
    made = storage.create(KIND, "a", {"n": 0}, b"")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(40):
            pool.submit(
                storage.update, KIND, "a", made.id, lambda old: ({"n": old.metadata["n"] + 1}, b"")
            )
    assert storage.read(KIND, "a", made.id).metadata == {"n": 40}


def test_what_a_killed_process_left_is_no_record(storage: Storage) -> None:
    made = storage.create(KIND, "a", {}, b"")
    (path,) = files_in(storage.folder)
    path.with_name(f".{made.id}.host.0123456789abcdef.unfinished").write_bytes(b"{")
    assert [each.id for each in storage.list_records(KIND, "a")] == [made.id]
    for damage in (b"", b"{", b"[]\n", json.dumps({"metadata": {}}).encode()):
        path.write_bytes(damage)
        with pytest.raises(DataError, match="is damaged: delete it"):
            storage.read(KIND, "a", made.id)


def test_a_record_is_locked_as_long_as_its_process_lives(storage: Storage) -> None:
    place = KIND, "a", storage.create(KIND, "a", {}, b"").id
    assert not storage.is_locked(*place)
    with storage.lock(*place):
        assert storage.is_locked(*place) and Storage(storage.folder).is_locked(*place)
        assert storage.read(*place).id == place[-1]
    assert not storage.is_locked(*place)
    code = "import sys; from pathlib import Path; from seq2seq.serving import storage\n"
    code += "place = storage.GLOSSARIES, 'a', sys.argv[2]\n"
    code += "lock = storage.Storage(Path(sys.argv[1])).lock(*place)\n"
    code += "print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(storage.folder), place[-1]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        assert storage.is_locked(*place)
        process.kill()
    assert not storage.is_locked(*place)
    storage.delete(*place)
    with pytest.raises(UnknownRecordError):
        storage.is_locked(*place)
