"""The notebook runs from top to bottom, in an empty folder."""

import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

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
    assert all((tmp_path / "runs/notebook" / n / "result.json").is_file() for n in ("rnn", "mixed"))


def test_each_page_that_the_notebook_links_to_exists() -> None:
    for text in cells("markdown"):
        for target in (part.split(")")[0] for part in text.split("](")[1:]):
            assert (NOTEBOOK.parent / target).is_file(), target
