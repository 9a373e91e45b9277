"""The notebook runs from top to bottom, in an empty folder."""

import base64
import json
import os
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
from run_notebook import run

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "from-bahdanau-to-flash.ipynb"


def cells(kind: str) -> list[str]:
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == kind]


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UPDATES", "20")
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOK.parents[2]))
    matplotlib.use("agg")
    names: dict[str, object] = {}
    try:
        for i, cell in enumerate(cells("code")):
            exec(compile(cell, f"cell {i}", "exec"), names)
        assert len(plt.get_fignums()) == 3
        grows, stays = ([*line.get_ydata()] for line in plt.gca().get_lines())
        assert grows[-1] > 10 * stays[-1] and grows[-1] / grows[-2] > 3 > stays[-1] / stays[-2]
    finally:
        plt.close("all")
    # Twice costs nothing: what is trained stays.
    runs = tmp_path / "runs/notebook/20"
    assert all((runs / name / "result.json").is_file() for name in ("rnn", "mixed"))


def test_models_are_those_of_the_number_of_updates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model trained with another number of updates is not used."""
    monkeypatch.chdir(tmp_path)
    _, definitions, *_ = cells("code")
    code = definitions.partition("\n\n\nrnn =")[0]
    trained = []

    def seq2seq(*words: str) -> str:
        trained.append(words)
        folder = Path(words[-1].partition("=")[2])
        folder.mkdir(parents=True)
        (folder / "result.json").touch()
        return ""

    for updates in (20, 100, 20):
        names = {"UPDATES": updates, "os": os, "seq2seq": seq2seq}
        exec(code, names)
        folder = names["train"]("rnn")  # type: ignore[operator]
        assert Path(folder, "result.json").is_file()
    assert [words[1] for words in trained] == ["trainer.max_steps=20", "trainer.max_steps=100"]


def test_the_notebook_is_stored_with_its_outputs() -> None:
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    outputs = [cell["outputs"] for cell in content["cells"] if cell["cell_type"] == "code"]
    text = "".join(part for each in outputs for one in each for part in one.get("text", []))
    assert text.count("BLEU") == 3 and "largest difference:" in text
    pictures = [one for each in outputs for one in each if "image/png" in one.get("data", {})]
    assert len(pictures) == 3


def test_a_cell_keeps_what_it_prints_and_draws() -> None:
    code = "import matplotlib.pyplot as plt\nprint(x)\nplt.plot([1, 2])\nplt.show()"
    text, picture = run(code, {"x": 3})
    assert text["text"] == ["3\n"]
    assert base64.b64decode(picture["data"]["image/png"]).startswith(b"\x89PNG")


def test_each_page_that_the_notebook_links_to_exists() -> None:
    for text in cells("markdown"):
        for target in (part.split(")")[0] for part in text.split("](")[1:]):
            assert (NOTEBOOK.parent / target).is_file(), target
