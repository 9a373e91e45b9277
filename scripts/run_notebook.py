"""Run the notebook of docs/ from top to bottom and store its outputs in it.

    UPDATES=300 python scripts/run_notebook.py [NOTEBOOK]

Printed text and figures are stored as Jupyter stores them. The models are trained in runs/notebook
of the working folder; those that are there already are used again.
"""

import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib
import matplotlib.pyplot as plt

NOTEBOOK = Path(__file__).resolve().parents[1] / "docs/notebooks/from-bahdanau-to-flash.ipynb"


def run(code: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell in the namespace of the cells before it. Returns: its outputs."""
    outputs: list[dict[str, Any]] = []

    def show() -> None:
        picture = io.BytesIO()
        plt.gcf().savefig(picture, format="png", dpi=72, metadata={"Software": None})
        plt.close("all")
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})

    printed = io.StringIO()
    with redirect_stdout(printed), patch.object(plt, "show", show):
        exec(compile(code, "cell", "exec"), names)  # noqa: S102
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": text})
    return outputs


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else NOTEBOOK
    notebook = json.loads(path.read_text(encoding="utf-8"))
    matplotlib.use("agg")
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, 1):
        cell["outputs"], cell["execution_count"] = run("".join(cell["source"]), names), count
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
