import gzip
import hashlib
import importlib.util
import io
import os
import urllib.error
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("SEQ2SEQ_MULTI30K", ROOT / "data" / "multi30k"))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, with the network replaced by one that is down."""
    spec = importlib.util.spec_from_file_location("m30k", ROOT / "scripts" / "prepare_multi30k.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def down(url: str, timeout: float) -> io.BytesIO:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", down)
    return module


@pytest.fixture
def published(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> dict[str, bytes]:
    """Files of our own under the published names, in tmp_path/from, with their own checksums."""
    files = {name: name.encode() for name in script.CHECKSUMS}
    (tmp_path / "from").mkdir()
    for name, content in files.items():
        (tmp_path / "from" / name).write_bytes(content)
        monkeypatch.setitem(script.CHECKSUMS, name, hashlib.sha256(content).hexdigest())
    return files


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_are_copied_from_a_folder(
    script: ModuleType, published: dict[str, bytes], tmp_path: Path
) -> None:
    arguments = ["--from", str(tmp_path / "from"), "--out", str(tmp_path / "deep" / "out")]
    assert script.main(arguments) == 0
    expected = {
        name: text
        for name, text in published.items()
        if name.endswith(".gz") and ".fr." not in name
    }
    assert held(tmp_path / "deep" / "out") == expected
    assert len(expected) == 6


def test_the_tokenised_form_has_a_separate_folder(
    script: ModuleType, published: dict[str, bytes], tmp_path: Path
) -> None:
    where = ["--from", str(tmp_path / "from"), "--out", str(tmp_path / "out")]
    assert script.main([*where, "--tok", "--languages", "fr"]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tok"]
    assert set(held(tmp_path / "out" / "tok")) == {
        "train.lc.norm.tok.fr",
        "val.lc.norm.tok.fr",
        "test_2016_flickr.lc.norm.tok.fr",
    }


def test_only_the_languages_asked_for_are_fetched(
    script: ModuleType, published: dict[str, bytes], tmp_path: Path
) -> None:
    where = ["--from", str(tmp_path / "from"), "--out", str(tmp_path / "out")]
    assert script.main([*where, "--languages", "fr"]) == 0
    assert set(held(tmp_path / "out")) == {
        "train.fr.gz",
        "val.fr.gz",
        "test_2016_flickr.fr.gz",
    }


def test_files_are_downloaded_under_their_address(
    script: ModuleType,
    published: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def serve(url: str, timeout: float) -> io.BytesIO:
        assert url.startswith(script.URL) and timeout > 0
        form, name = url.removeprefix(script.URL).split("/")
        assert form == ("tok" if ".tok." in name else "raw")
        return io.BytesIO(published[name])

    monkeypatch.setattr(urllib.request, "urlopen", serve)
    out, all_of_them = tmp_path / "out", ["--languages", "en", "de", "fr"]
    assert script.main(["--out", str(out), *all_of_them]) == 0
    raw = held(out)
    assert script.main(["--out", str(out), *all_of_them, "--tok"]) == 0
    assert {**raw, **held(out / "tok")} == published and len(raw) == 9


def test_without_a_network_it_says_what_to_do(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["--out", str(tmp_path / "out")]) == 1
    errors = capsys.readouterr().err
    assert "cannot download" in errors and "no network" in errors and "--from FOLDER" in errors
    assert held(tmp_path / "out") == {}


def test_an_interrupted_run_keeps_what_it_has(
    script: ModuleType,
    published: dict[str, bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "from" / "val.en.gz").rename(tmp_path / "elsewhere")
    arguments = ["--from", str(tmp_path / "from"), "--out", str(tmp_path / "out")]
    assert script.main(arguments) == 1
    assert f"cannot read {tmp_path / 'from' / 'val.en.gz'}" in capsys.readouterr().err
    (tmp_path / "elsewhere").rename(tmp_path / "from" / "val.en.gz")
    assert script.main(arguments) == 0
    said = capsys.readouterr().out
    assert "train.de.gz: kept" in said and "val.en.gz: copied" in said
    assert len(held(tmp_path / "out")) == 6


def test_other_contents_are_refused_and_not_written(
    script: ModuleType,
    published: dict[str, bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "from" / "train.de.gz").write_bytes(b"something else")
    arguments = ["--from", str(tmp_path / "from"), "--out", str(tmp_path / "out")]
    assert script.main(arguments) == 1
    assert "train.de.gz is not the published file" in capsys.readouterr().err
    assert held(tmp_path / "out") == {}


def test_a_file_of_the_user_is_never_overwritten(
    script: ModuleType,
    published: dict[str, bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.de.gz").write_bytes(b"mine")
    assert script.main(["--from", str(tmp_path / "from"), "--out", str(tmp_path / "out")]) == 1
    assert "Move it away" in capsys.readouterr().err
    assert held(tmp_path / "out") == {"train.de.gz": b"mine"}


def test_a_place_that_cannot_be_written_is_named(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").touch()
    assert script.main(["--out", str(tmp_path / "out")]) == 1
    assert f"cannot write to {tmp_path / 'out'}" in capsys.readouterr().err


def test_an_unknown_language_is_refused(script: ModuleType) -> None:
    with pytest.raises(SystemExit):
        script.main(["--languages", "xx"])


@pytest.mark.skipif(
    not (CORPUS / "train.fr.gz").exists(),
    reason="needs Multi30k: python scripts/prepare_multi30k.py --languages en de fr",
)
def test_the_checksums_are_those_of_the_corpus(script: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "out"
    where = ["--from", str(CORPUS), "--out", str(out), "--languages", "en", "de", "fr"]
    assert script.main(where) == 0
    lines = {name: gzip.decompress(text).count(b"\n") for name, text in held(out).items()}
    expected = {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000}
    assert lines == {name: expected[name.split(".")[0]] for name in lines}
