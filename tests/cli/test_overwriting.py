"""Commands never overwrite what they read, nor the files of a run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.commands import Command, refused
from helpers.tiny_runs import TINY_MODEL, save_model

from seq2seq.base.errors import ConfigError
from seq2seq.cli.files import check_written


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """A run whose files may be lost."""
    folder = shutil.copytree(run, tmp_path / "run")
    for name in (".hydra/config.yaml", "kept/last-step0000050.ckpt", "best.alignment.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("precious\n", encoding="utf-8")
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_command_writes_over_a_file_of_any_run(
    seq2seq: Command, run: Path, copy: Path, test_set: tuple[Path, Path]
) -> None:
    """Nothing but what a run wrote is in its folder."""
    source, reference = map(str, test_set)
    before = contents(copy)
    assert len(before) > 8
    for path in before:
        for typed in (
            ("translate", run, "Ja."),
            ("evaluate", run, source, reference),
            ("align", run, "Ja.", "Yes."),
            ("report", run, "--source", source, "--reference", reference),
            ("average", run / "best.ckpt", run / "last.ckpt"),
        ):
            words = refused(seq2seq(*typed, "-o", path))
            assert f"-o {path} " in words and "give another name" in words
    assert contents(copy) == before


def test_ordinary_names_in_the_folder_of_a_run_can_be_written_again(copy: Path) -> None:
    for name in (
        "map.png",
        "report.html",
        "test.out",
        "test.align",
        "kept.txt",
        "my/best.ckpt.txt",
    ):
        (copy / name).parent.mkdir(exist_ok=True)
        check_written(copy / name, copy)
        (copy / name).write_text("earlier\n", encoding="utf-8")
        check_written(copy / name, copy)


def test_a_dash_is_not_taken_for_the_name_of_a_file(
    seq2seq: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for typed in (
        ("translate", run, "Ja."),
        ("quantize", run),
        ("report", run),
        ("export", run, "--format", "hf"),
        ("import", tmp_path),
    ):
        assert "leave -o out" in refused(seq2seq(*typed, "-o", "-"))
    assert not [*tmp_path.iterdir()]


def test_a_model_replaces_only_other_models(copy: Path, tmp_path: Path) -> None:
    average, notes = copy / "average.ckpt", tmp_path / "notes"
    save_model(average, *TINY_MODEL)
    notes.write_text("a text\n", encoding="utf-8")
    check_written(average, copy / "best.ckpt", model=True)
    with pytest.raises(ConfigError, match="overwrite a file that is not a model"):
        check_written(notes, model=True)
    with pytest.raises(ConfigError, match="overwrite a model"):
        check_written(average)


@pytest.mark.parametrize("kind", ["itself", "symbolic link", "hard link", "detour"])
def test_no_command_writes_over_what_it_reads(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], kind: str
) -> None:
    source, reference = test_set
    model = save_model(source.with_name("a.ckpt"), *TINY_MODEL) and source.with_name("a.ckpt")
    words = source.with_name("words")
    words.write_text("Ja.\n", encoding="utf-8")
    before = contents(source.parent)

    def other(path: Path) -> Path:
        name = source.with_name("other").with_suffix(path.suffix)
        name.unlink(missing_ok=True)
        if kind == "symbolic link":
            name.symlink_to(path)
        elif kind == "hard link":
            os.link(path, name)
        return {"itself": path, "detour": path.parent / ".." / path.parent.name / path.name}.get(
            kind, name
        )

    files = "--source", source, "--target", reference
    for typed, path in (
        (("translate", run, "-i", source), source),
        (("evaluate", run, source, reference), source),
        (("evaluate", run, source, reference), reference),
        (("evaluate", words, source, reference), words),
        (("align", run, *files), source),
        (("align", run, *files, "--gold", words), words),
        (("align", "--links", words, "--gold", reference), words),
        (("report", run, "--source", source, "--reference", reference), reference),
        (("average", model, model), model),
    ):
        name = other(path)
        assert f"-o {name} would overwrite " in refused(seq2seq(*typed, "-o", name))
    assert before.items() <= contents(source.parent).items()


def test_a_report_never_overwrites_the_texts_of_its_run(
    seq2seq: Command, run: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """They are read because the run's configuration names them."""
    corpus = tmp_path_factory.getbasetemp() / "tiny-corpus"
    for name in ("valid.de", "valid.en", "train.de"):
        before = (corpus / name).read_bytes()
        assert f"{name}, which is read" in refused(seq2seq("report", run, "-o", corpus / name))
        assert (corpus / name).read_bytes() == before


def test_redirecting_output_to_the_input_is_noticed(tmp_path: Path) -> None:
    """`seq2seq translate RUN < a.txt >> a.txt` would translate what it wrote, for ever."""
    text = tmp_path / "a.txt"
    command = [sys.executable, "-m", "seq2seq", "translate", str(tmp_path / "run")]
    for typed in ([*command], [*command, "-i", str(text)], [*command, "-o", str(text)]):
        text.write_text("Ja.\n", encoding="utf-8")
        with text.open("rb") as stdin, text.open("ab") as stdout:
            out = subprocess.DEVNULL if "-o" in typed else stdout
            ended = subprocess.run(
                typed, stdin=stdin, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60
            )
        assert ended.returncode == 2 and "would overwrite" in ended.stderr
        assert text.read_text(encoding="utf-8") == "Ja.\n"


def test_a_text_that_is_a_file_name_causes_a_warning(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path]
) -> None:
    plain = seq2seq("translate", run, "no.such.file")
    assert plain.complaints == "" and plain.code == 0
    ended = seq2seq("translate", run, test_set[0])
    assert ended.code == 0 and len(ended.lines) == 1
    assert f"warning: {test_set[0]} is the name of a file" in ended.err and "-i FILE" in ended.err
    output = test_set[0].with_name("a.align")
    assert "--source FILE" in seq2seq("align", run, test_set[0], "A dog.", "-o", output).err
