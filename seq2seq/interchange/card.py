"""The card of an exported model: what it is, how good, and what it was trained on."""

import json
from pathlib import Path
from typing import Any

from seq2seq import __version__
from seq2seq.checkpoint import Saved
from seq2seq.metrics.registry import METRICS

USE = """```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerFast

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
target = PreTrainedTokenizerFast(tokenizer_file="FOLDER/target_tokenizer.json")
model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
batch = tokenizer(["..."], return_tensors="pt", padding=True, return_token_type_ids=False)
print(target.batch_decode(model.generate(**batch), skip_special_tokens=True))
```"""


def build_card(saved: Saved, run: Path) -> str:
    """Markdown with front matter; scores and data are those of `result.json` and `data.json`."""
    source, target = (str(saved.config["data"][side]) for side in ("source", "target"))
    front = [
        "---",
        "language:",
        f"- {json.dumps(source)}",
        f"- {json.dumps(target)}",
        "library_name: transformers",
    ]
    front += ["pipeline_tag: translation", "tags:", "- translation", "- seq2seq", "---"]
    model = saved.config["model"]
    lines = [
        f"# {source} to {target}",
        "",
        f"A Transformer of {model['encoder_layers']} + {model['decoder_layers']} layers of width "
        f"{model['dim']}, written by seq2seq {__version__}.",
        "",
        USE,
        *markdown_section("Scores", list_scores(run, target)),
        *markdown_section("Data", list_data(run)),
    ]
    return "\n".join([*front, *lines, ""])


def markdown_section(title: str, lines: list[str]) -> list[str]:
    return ["", f"## {title}", "", *(lines or ["Not recorded."])]


def list_scores(run: Path, target: str) -> list[str]:
    """A line for the score of the validation set, if the run recorded it."""
    result = read_run_file(run / "result.json")
    if "monitor" not in result:
        return []
    monitor, signed = str(result["monitor"]), ""
    if monitor in METRICS:
        metric = METRICS[monitor].build([["a"]], target)
        metric.corpus_score(["a"], [["a"]])  # only then does it know its signature
        signed = f" (`{metric.get_signature()}`)"
    value, steps = result.get("value", "?"), result.get("steps", "?")
    return [f"- {monitor} of the validation set: {value}{signed}, after {steps} updates"]


def list_data(run: Path) -> list[str]:
    """A line for each corpus, if the run recorded them."""
    parts = read_run_file(run / "data.json").get("parts", {})
    return [
        f"- {part}: {corpus['kept']:,} pairs of "
        + ", ".join(f"{Path(f['path']).name} (sha256 {f['sha256'][:12]})" for f in corpus["files"])
        for part, described in parts.items()
        for corpus in described["corpora"]
    ]


def read_run_file(path: Path) -> dict[str, Any]:
    """The object in a JSON file of the run; empty if there is none."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
