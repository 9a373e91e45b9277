"""Files of Multi30k: where they come from, and that no other content is accepted."""

import gzip
import hashlib
import io
import os
import urllib.error
import urllib.request
from pathlib import Path

import prepare_multi30k as script
import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("SEQ2SEQ_MULTI30K", ROOT / "data" / "multi30k"))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(url: str, timeout: float) -> io.BytesIO:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", down)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, bytes]:
    """Files of our own under the published names, in tmp_path/from, with their own checksums."""
    files = {name: name.encode() for name in script.CHECKSUMS}
    (tmp_path / "from").mkdir()
    for name, content in files.items():
        (tmp_path / "from" / name).write_bytes(content)
        monkeypatch.setitem(script.CHECKSUMS, name, hashlib.sha256(content).hexdigest())
    return files


def copy(folder: Path, *more: str) -> int:
    """Run the script from the folder `from` into the folder `out`."""
    return script.main(["--from", str(folder / "from"), "--out", str(folder / "out"), *more])


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("typed", "folder", "names"),
    [
        ("", ".", "{part}.en.gz {part}.de.gz"),
        ("--languages fr", ".", "{part}.fr.gz"),
        ("--languages fr --tok", "tok", "{part}.lc.norm.tok.fr"),
    ],
)
def test_the_files_of_the_languages_and_the_form_are_copied(
    published: dict[str, bytes], tmp_path: Path, typed: str, folder: str, names: str
) -> None:
    assert copy(tmp_path, *typed.split()) == 0
    parts = ("train", "val", "test_2016_flickr")
    wanted = {name.format(part=part) for part in parts for name in names.split()}
    assert held(tmp_path / "out" / folder) == {name: published[name] for name in wanted}
    assert {path.name for path in (tmp_path / "out").iterdir()} == (
        {folder} if folder == "tok" else wanted
    )


def test_files_are_downloaded_under_their_address(
    published: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(url: str, timeout: float) -> io.BytesIO:
        assert url.startswith(script.URL) and timeout > 0
        form, name = url.removeprefix(script.URL).split("/")
        assert form == ("tok" if ".tok." in name else "raw")
        return io.BytesIO(published[name])

    monkeypatch.setattr(urllib.request, "urlopen", serve)
    out, all_of_them = tmp_path / "deep" / "out", ["--languages", "en", "de", "fr"]
    assert script.main(["--out", str(out), *all_of_them]) == 0
    raw = held(out)
    assert script.main(["--out", str(out), *all_of_them, "--tok"]) == 0
    assert {**raw, **held(out / "tok")} == published and len(raw) == 9


def test_without_a_network_it_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["--out", str(tmp_path / "out")]) == 1
    errors = capsys.readouterr().err
    assert "cannot download" in errors and "no network" in errors and "--from FOLDER" in errors
    assert held(tmp_path / "out") == {}


def test_an_interrupted_run_keeps_what_it_has(
    published: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "from" / "val.en.gz"
    missing.rename(tmp_path / "elsewhere")
    assert copy(tmp_path) == 1
    assert f"cannot read {missing}" in capsys.readouterr().err
    (tmp_path / "elsewhere").rename(missing)
    assert copy(tmp_path) == 0
    said = capsys.readouterr().out
    assert "train.de.gz: kept" in said and "val.en.gz: copied" in said
    assert len(held(tmp_path / "out")) == 6


@pytest.mark.parametrize(
    ("folder", "message", "left"),
    [
        ("from", "train.de.gz is not the published file", {}),
        ("out", "Move it away", {"train.de.gz": b"other"}),  # a file of the user
    ],
)
def test_other_contents_are_refused_and_nothing_is_overwritten(
    published: dict[str, bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    folder: str,
    message: str,
    left: dict[str, bytes],
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "train.de.gz").write_bytes(b"other")
    assert copy(tmp_path) == 1
    assert message in capsys.readouterr().err
    assert held(tmp_path / "out") == left


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").touch()
    assert script.main(["--out", str(tmp_path / "out")]) == 1
    assert f"cannot write to {tmp_path / 'out'}" in capsys.readouterr().err


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(SystemExit):
        script.main(["--languages", "xx"])


@pytest.mark.skipif(
    not (CORPUS / "train.fr.gz").exists(),
    reason="needs Multi30k: python scripts/prepare_multi30k.py --languages en de fr",
)
def test_the_checksums_are_those_of_the_corpus(tmp_path: Path) -> None:
    out = tmp_path / "out"
    where = ["--from", str(CORPUS), "--out", str(out), "--languages", "en", "de", "fr"]
    assert script.main(where) == 0
    lines = {name: gzip.decompress(text).count(b"\n") for name, text in held(out).items()}
    expected = {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000}
    assert lines == {name: expected[name.split(".")[0]] for name in lines}
