"""`seq2seq report`, and its page in a real browser."""

import json
import re
import shutil
from pathlib import Path

import pytest
from helpers import browser
from helpers.browser import Browser
from helpers.commands import SENTENCES, Command, refused
from helpers.tiny_runs import TINY_MODEL, demo_lines, save_model

window = browser.window

HEADINGS = [
    "Learning curves",
    "Scores",
    "Length of the source",
    "Worst and best sentences",
    "Alignment",
    "Data",
]


def missing(window: Browser) -> dict[str, str]:
    """Why sections are missing, by heading."""
    reasons: dict[str, str] = window.run(
        "Object.fromEntries([...document.querySelectorAll('.part')]"
        ".filter(p => p.querySelector('.missing'))"
        ".map(p => [p.querySelector('h2').textContent, p.querySelector('.missing').textContent]))"
    )
    return reasons


def test_a_report_has_all_sections_for_a_run(
    seq2seq: Command, run: Path, tmp_path: Path, window: Browser
) -> None:
    path = tmp_path / "report.html"
    ended = seq2seq("report", run, "-o", path, "-n", 30)
    assert ended.code == 0
    assert f"{path}: on the first 30 of 40 sentences of" in ended.lines[0]
    assert "on which the checkpoint was chosen" in ended.lines[0]  # it has no test set
    window.open(path)
    headings = window.run("[...document.querySelectorAll('h2')].map(h => h.textContent)")
    assert headings == HEADINGS
    assert missing(window) == {}
    assert window.run("document.querySelectorAll('.chart').length") >= 4
    assert window.run("document.querySelector('h1').textContent") == run.name
    assert window.requests == [path.as_uri()] and window.complaints == []


@pytest.mark.parametrize("name", ["", "best.ckpt", "kept/one.ckpt"])
def test_reports_go_to_the_folder_of_the_run_and_pictures_to_the_current_one(
    seq2seq: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "run" / "kept").mkdir(parents=True)
    save_model(tmp_path / "run" / (name or "best.ckpt"), *TINY_MODEL)
    monkeypatch.chdir(tmp_path)
    model = Path("run", name)
    for typed, file in (("report",), "run/report.html"), (("align", "Ja.", "Yes."), "map.png"):
        ended = seq2seq(typed[0], model, *typed[1:])
        assert ended.lines[0].startswith(f"{file}: ")
        assert (tmp_path / file).is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.png", "run"]
    assert not [*(tmp_path / "run").rglob("map.png")]


def test_a_report_of_a_missing_run_is_refused(seq2seq: Command, tmp_path: Path) -> None:
    path = tmp_path / "no" / "run"
    assert f"there is no {path}" in refused(seq2seq("report", path))
    assert f"there is no {path}" in refused(seq2seq("align", path, "Ja.", "Yes."))


def test_the_alignments_of_a_report_react_to_the_pointer(
    seq2seq: Command, run: Path, tmp_path: Path, window: Browser
) -> None:
    path = tmp_path / "report.html"
    seq2seq("report", run, "-o", path, "-n", 12)
    window.open(path)
    assert window.run("document.querySelector('[name=pair]').length") == 12
    window.hover(".target.line .word")
    assert window.run("document.querySelectorAll('.word.held').length") == 1
    assert "looked at" in window.run("document.querySelector('.said').textContent")


def test_the_scores_of_a_report_equal_those_of_evaluate(
    seq2seq: Command, run: Path, pairs: tuple[Path, Path], tmp_path: Path, window: Browser
) -> None:
    path = tmp_path / "report.html"
    seq2seq("report", run, "--source", pairs[0], "--reference", pairs[1], "-o", path)
    window.open(path)
    rows = window.run(
        "[...document.querySelectorAll('.part:nth-of-type(2) tr')].slice(1)"
        ".map(r => [...r.children].slice(0, 2).map(c => c.textContent))"
    )
    scores = json.loads(seq2seq("evaluate", run, *pairs, "--json").out)
    for name, value in rows:
        assert value == f"{scores[name]['score']:.1f}"
    assert [name for name, _ in rows] == ["BLEU", "chrF", "TER"]


def test_the_table_of_lengths_equals_that_of_evaluate(
    seq2seq: Command, run: Path, pairs: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    seq2seq("report", run, "--source", pairs[0], "--reference", pairs[1], "-o", path)
    (inside,) = re.findall("Length of the source</h2>(.*?)</section>", path.read_text(), re.DOTALL)
    rows = [re.findall("<td[^>]*>(.*?)</td>", row) for row in inside.split("<tr>")[2:]]
    lines = seq2seq("evaluate", run, *pairs, "--lengths").lines
    buckets = lines[lines.index("BLEU by words of the source") + 1 :]
    assert rows and [[row[0], row[2], row[1]] for row in rows] == [
        line.split()[:3] for line in buckets
    ]


def test_tokenized_references_are_scored_as_they_stand_as_well(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    for name in ("de", "en"):
        lines = [line.replace(".", " .") for line in demo_lines("test", name, 3)]
        (tmp_path / f"x.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = "--source", tmp_path / "x.de", "--reference", tmp_path / "x.en"
    assert seq2seq("report", run, *files, "-o", tmp_path / "x.html").code == 0
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<td>BLEU-tokenized</td>" in page and "|tok:none|" in page


def test_a_section_says_if_its_input_is_missing(
    seq2seq: Command, run: Path, tmp_path: Path, window: Browser
) -> None:
    # A model alone, whose attention cannot be drawn, and whose corpus is not here.
    save_model(tmp_path / "best.ckpt", *TINY_MODEL, "attn=fixed")
    path = tmp_path / "report.html"
    ended = seq2seq("report", tmp_path, "-o", path)
    assert ended.code == 0 and "without scores" in ended.lines[0]
    window.open(path)
    reasons = missing(window)
    assert list(reasons) == HEADINGS
    assert "metrics.csv cannot be read" in reasons["Learning curves"]
    assert "names no test set: --source FILE --reference FILE" in reasons["Scores"]
    assert "data.json cannot be read" in reasons["Data"]
    for name in ("de", "en"):
        text = "".join(f"{line}\n" for line in demo_lines("test", name, 5))
        (tmp_path / f"x.{name}").write_text(text, encoding="utf-8")
    files = "--source", tmp_path / "x.de", "--reference", tmp_path / "x.en"
    seq2seq("report", tmp_path, *files, "-o", path)
    window.open(path)
    assert "attention 'fixed' has no weights to draw" in missing(window)["Alignment"]


def test_a_table_of_several_references_is_refused(seq2seq: Command, tmp_path: Path) -> None:
    source, table = tmp_path / "x.de", tmp_path / "x.tsv"
    source.write_text("Ja.\n", encoding="utf-8")
    table.write_text("Yes.\tYeah.\n", encoding="utf-8")
    files = "--source", source, "--reference", table
    message = refused(seq2seq("report", tmp_path, *files, "-o", tmp_path / "report.html"))
    assert "a report takes one reference per sentence" in message


def test_markup_in_sentences_is_shown_as_text(
    seq2seq: Command, run: Path, tmp_path: Path, window: Browser
) -> None:
    evil = (
        "</script><script>document.title='broken'</script> <img src=x:y onerror=alert(1)> \x00 ${x}"
    )
    folder = tmp_path / "<b>&'\""
    shutil.copytree(run, folder)
    for name in ("de", "en"):
        lines = [evil, "مرحبا بالعالم", "", *SENTENCES[:3]]
        (tmp_path / f"x.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = tmp_path / "report.html"
    files = "--source", tmp_path / "x.de", "--reference", tmp_path / "x.en"
    assert seq2seq("report", folder, *files, "-o", path).code == 0
    window.resize(360)
    window.open(path)
    assert window.run("document.title") == window.run("document.querySelector('h1').textContent")
    assert window.run("document.title") == folder.name
    texts = window.run("[...document.querySelectorAll('dd')].map(d => d.textContent)")
    assert evil.replace("\x00", "\\x00") in texts
    assert window.run("document.querySelectorAll('img, b').length") == window.run(
        "document.querySelectorAll('.mark b').length"
    )
    assert window.run("document.documentElement.scrollWidth <= innerWidth")
    assert window.complaints == []
    window.resize(1200)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"parts": {"train": 1}, "tokenizer": {}}'])
def test_a_damaged_file_of_a_run_costs_only_its_own_section(
    seq2seq: Command, run: Path, tmp_path: Path, window: Browser, content: str
) -> None:
    shutil.copy(run / "best.ckpt", tmp_path)
    for name in ("data.json", "result.json", "metrics.csv"):
        (tmp_path / name).write_text(content, encoding="utf-8")
    path = tmp_path / "report.html"
    ended = seq2seq("report", tmp_path / "best.ckpt", "-o", path, "-n", 3)
    assert (ended.code, ended.complaints) == (0, "")
    window.open(path)
    assert list(missing(window)) == ["Learning curves", "Data"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--source", "x.de"), "belong together"),
        (("--source", "x.de", "--reference", "x.en"), "x.de does not exist"),
        (("-o", "no/folder/x.html"), "there is no folder no/folder"),
        (("--source", __file__, "--reference", __file__, "-o", __file__), "would overwrite"),
        ((), "no_model"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_computed(
    seq2seq: Command, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(seq2seq("report", tmp_path / "no_model", *arguments))
