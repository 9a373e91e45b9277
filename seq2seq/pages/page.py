"""HTML pages, each a single file that any browser shows without a network; the alignment page.

A page combines files of `pages/` and data. Texts in the data can never act as markup or code: the
data is in a script element, as JSON without `<`, and the page's content security policy makes the
browser load nothing, and run only the script whose hash is computed here.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import product
from pathlib import Path
from string import Template
from typing import Any

import torch

from seq2seq.alignment.choice import Alignment, Choice
from seq2seq.alignment.links import Word, format_links
from seq2seq.base.durable import replacing
from seq2seq.base.errors import ConfigError
from seq2seq.pages.labels import to_label

LONGEST = 60  # longest word in characters


def write_page(path: Path, alignments: Sequence[Alignment], choice: Choice) -> None:
    """Write a page of alignments that lets the reader choose the pair, layer, head and shift.

    Weights are written in steps of 1/255. Links are those of `Alignment.links` for every shift,
    layer and head; for the map in `choice`, also with its threshold.

    Args:
        alignments: One or more alignments by the same model.
        choice: Map that is shown first.

    Raises: ConfigError if the file cannot be written.
    """
    body = '<h1>Alignment</h1>\n<p class="lead">Where the model looked in the source (above, or on '
    body += "the left) when it wrote each word of the translation. Blue: a link. Grey: the rest of "
    body += f"its attention.</p>\n{read_part('alignment.html')}"
    data = {"alignments": alignment_data(alignments, choice)}
    write_html(path, "Alignment", body, data, "theme.css", "alignment.css", "alignment.js")


def alignment_data(alignments: Sequence[Alignment], choice: Choice) -> dict[str, Any]:
    """The data that `pages/alignment.js` needs of one or more alignments, in plain values."""
    return {
        "choice": {"shift": choice.shift, "layer": choice.layer, "head": choice.head},
        "shape": list(alignments[0].weights.shape[:3]),
        "pairs": [pair_data(alignment, choice) for alignment in alignments],
    }


def write_html(path: Path, title: str, body: str, data: Mapping[str, Any], *files: str) -> None:
    """Write a whole HTML document.

    Args:
        title, body: HTML whose texts are already escaped.
        data: Values for the scripts, which find them in the element `data`.
        files: Style sheets and scripts of `pages/`.

    Raises: ConfigError if the file cannot be written.
    """
    style, script = (
        "\n".join(read_part(name) for name in files if name.endswith(kind))
        for kind in (".css", ".js")
    )
    policy = (
        f"default-src 'none'; img-src data:; style-src '{policy_hash(style)}'; "
        f"script-src '{policy_hash(script)}'"
    )
    parts = {"policy": policy, "title": title, "body": body, "style": style, "script": script}
    # ASCII only, without the characters that could end a script element.
    plain = json.dumps(data, separators=(",", ":"))
    for character in "<>&":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    html = Template(read_part("page.html")).substitute(parts, data=plain)
    write_file(path, html.encode(), "page")


def read_part(name: str) -> str:
    """A file of `pages/`."""
    return resources.files("seq2seq.pages").joinpath(name).read_text(encoding="utf-8")


def write_file(path: Path, content: bytes, what: str) -> None:
    """Write a file, and make its folder. Raises: ConfigError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise ConfigError(f"cannot write the {what} {path}: {error.strerror}") from error


def pair_data(alignment: Alignment, choice: Choice) -> dict[str, Any]:
    """The words, the weights as bytes, and the links of each map. Maps are ordered by shift, layer
    and head, with the mean over heads before the heads.
    """
    shifts, layers, heads = alignment.weights.shape[:3]
    maps = product(range(shifts), range(layers), (None, *range(heads)))
    # The threshold of the choice applies to its own map only.
    links = [alignment.links(choice if each == choice[:3] else Choice(*each)) for each in maps]
    steps = (alignment.weights.clamp(0, 1) * 255).round().to(torch.uint8)
    return {
        "source": word_labels(alignment.source),
        "target": word_labels(alignment.target),
        "weights": base64.b64encode(steps.cpu().contiguous().numpy().tobytes()).decode("ascii"),
        "links": [format_links(each) for each in links],
    }


def word_labels(words: Sequence[Word]) -> list[str]:
    return [to_label(word.text, LONGEST) for word in words]


def policy_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
