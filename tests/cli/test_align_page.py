"""`seq2seq align -o page.html`."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command, refused

from seq2seq.cli.align import views


def data(path: Path) -> Any:
    html = path.read_text(encoding="utf-8")
    return json.loads(html.split('id="data">', 1)[1].split("</script>", 1)[0])["alignments"]


def test_a_sentence_becomes_a_page(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    ended = seq2seq("align", run, "Ein Hund.", "A dog.", "-o", path, "--layer", 2, "--heads", 1)
    assert ended.code == 0 and ended.lines[0].startswith(f"{path}: decoder layer 2 of 2, head 1")
    content = data(path)
    assert content["choice"] == {"shift": 0, "layer": 1, "head": 0}
    assert [content["pairs"][0][side] for side in ("source", "target")] == [
        ["Ein", "Hund."],
        ["A", "dog."],
    ]


def test_the_first_pairs_of_files_are_shown_and_counted(
    seq2seq: Command,
    run: Path,
    pairs: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = "--source", pairs[0], "--target", pairs[1]
    path = tmp_path / "page.html"
    ended = seq2seq("align", run, *files, "-o", path)
    assert ended.code == 0 and "the first" not in ended.lines[0]
    assert len(data(path)["pairs"]) == 12
    monkeypatch.setattr(views, "MAX_PAIRS", 5)
    ended = seq2seq("align", run, *files, "-o", path)
    assert ended.lines[0].endswith(", the first 5 of 12 pairs")
    assert len(data(path)["pairs"]) == 5
    monkeypatch.setattr(views, "MAX_WEIGHTS", 1)
    ended = seq2seq("align", run, *files, "-o", path)
    assert ended.lines[0].endswith(", the first 1 of 12 pairs")


def test_a_pair_that_cannot_be_aligned_is_left_out_with_a_warning(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    for side, lines in (("de", "Ja.\n\n"), ("en", "Yes.\nNo.\n")):
        (tmp_path / f"x.{side}").write_text(lines, encoding="utf-8")
    files = "--source", tmp_path / "x.de", "--target", tmp_path / "x.en"
    ended = seq2seq("align", run, *files, "-o", tmp_path / "page.html")
    assert ended.code == 1 and "line 2 cannot be aligned: the source is empty" in ended.err
    assert len(data(tmp_path / "page.html")["pairs"]) == 1


@pytest.mark.parametrize("option", [("--gold", "x.align"), ("--json",), ("--reverse", "other")])
def test_options_for_links_are_refused_for_a_page(
    seq2seq: Command, pairs: tuple[Path, Path], tmp_path: Path, option: tuple[str, ...]
) -> None:
    files = "--source", pairs[0], "--target", pairs[1], *option
    ended = seq2seq("align", tmp_path / "no_model", *files, "-o", tmp_path / "page.html")
    assert f"{option[0]} is for links" in refused(ended)
