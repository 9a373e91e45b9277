"""Word alignments read from attention weights, and the choice of the weights to read.

Attention shows where the model looked to write the next piece. There are two readings of a row: it
can belong to the word being written, or to the word read just before. Models differ in which
reading, layer and head best shows which words translate each other, so all are candidates, and the
links of a validation set decide (`seq2seq.alignment.candidates`).

The choice for `best.ckpt` is kept beside it in `best.alignment.json`, counted from 1 as on the
command line:

    {"checkpoint": "best.ckpt", "sha256": "...", "shift": 0, "layer": 2, "heads": "mean",
     "threshold": 0.4, "near": 1.0, "competing": true, "aer": 0.137, "pairs": 500,
     "gold": "valid.align"}

The checksum is of the checkpoint file, so a choice is never used for another model. A model without
such a file has a guess, which depends on the model only: a sentence has the same links alone and in
a file.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from seq2seq.alignment.links import Link, Word, compete, extract_links, share_out
from seq2seq.base.durable import write_text
from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.registry import matches

# A head that was trained to align spreads its weight evenly over all linked words, so a word with
# half of the largest weight is one of them.
GUIDED_NEAR = 0.5
NEAREST = 0.2  # minimum share of a source word's weight that shows where its translation is

# Units to link: words between spaces, words and separate punctuation marks, tokenizer pieces.
Units = Literal["words", "tokens", "subwords"]

# The stored parts of a choice, under the names of the command-line options.
OPTIONS: dict[str, Any] = {
    "shift": int,
    "layer": int,
    "heads": int | Literal["mean"],
    "threshold": float,
    "near": float,
    "competing": bool,
}
HINT = "Choose again with --choose, or remove the file"

SHARPEST = "sharpest_layer"  # entry of a checkpoint's configuration: a decoder layer, from 1
SHIFTS = (0, 1)  # read a word's row at the step that writes it, or at the next one


class Choice(NamedTuple):
    """The weights that an alignment is read from.

    Attributes:
        shift: 0 for where the model looked when it wrote a word, 1 for one step later, when the
            decoder has read the word.
        layer: decoder layer, from 0.
        head: attention head, from 0; None for the mean over heads.
        threshold, near: limits that decide which weights are links, see `extract_links`.
        competing: True if source words compete for target words, see `compete`.
    """

    shift: int
    layer: int
    head: int | None
    threshold: float = 0.0
    near: float = 1.0
    competing: bool = True


class Alignment(NamedTuple):
    """The weights with which a model read the source while it wrote each word of a translation.

    `weights` (R, L, H, T, S + 1) for each of the R = 2 readings (`Choice.shift`), layer, head,
    target word and source word; the last column belongs to the end of the source. A row sums to
    what the mechanism's rows do (`Attention.sums_to_one`), minus the weight on a tag before the
    source, which is not a word and has no column.
    """

    source: list[Word]
    target: list[Word]
    weights: Tensor

    def map(self, choice: Choice) -> Tensor:
        """The weights of one head, or the mean over the heads of a layer; (T, S + 1)."""
        heads = self.weights[choice.shift, choice.layer]
        return heads.mean(0) if choice.head is None else heads[choice.head]

    def links(self, choice: Choice) -> set[Link]:
        """The links of this choice, see `extract_links`."""
        weights = compete(self.map(choice)) if choice.competing else self.map(choice)
        return extract_links(weights, near=choice.near, threshold=choice.threshold)

    def best_links(self, choice: Choice) -> tuple[set[Link], list[int | None]]:
        """Read links from a map, letting source words compete for target words (see `compete`).
        Punctuation is linked only to punctuation.

        Returns: at most one link for each target word; and for each source word, the target word
            with the largest share of its weight, or None if that share is small.
        """
        if not (self.source and self.target):
            return set(), [None] * len(self.source)
        target, source = (torch.tensor(list(map(is_mark, s))) for s in (self.target, self.source))
        weights = self.map(choice)
        weights = torch.cat([weights[:, :-1] * (target[:, None] == source), weights[:, -1:]], 1)
        largest, targets = share_out(weights).max(0)
        near = (largest >= NEAREST).tolist()
        nearest = [j if n else None for j, n in zip(targets.tolist(), near, strict=True)]
        return extract_links(compete(weights)), nearest


def layer_entropies(weights: Tensor) -> Tensor:
    """The entropy in nats of the mean over heads, for each layer and target piece; low if the
    attention of a layer is sharp.

    Args:
        weights: (L, B, H, T, S), each row over S source pieces.

    Returns: (L, B, T).
    """
    entropies: Tensor = torch.special.entr(weights.float().mean(2)).sum(-1)
    return entropies


def guess_layer(layers: int) -> int:
    """The number, from 1, of the layer that most likely aligns words if nothing else is known: the
    last but one, but never the first of several, whose queries have not read the source.

    Source: Garg et al. 2019, arXiv:1909.02074.
    """
    return min(layers, max(2, layers - 1))


def guess_choice(config: Mapping[str, Any], layers: int) -> Choice:
    """Guess a choice without reference links: source words compete for the mean over the heads of
    one layer.

    Args:
        config: configuration of a checkpoint. It names the layer whose attention was sharpest in
            validation; for older checkpoints the layer is that of `guess_layer`.
        layers: number of decoder layers.
    """
    return Choice(0, min(config.get(SHARPEST) or guess_layer(layers), layers) - 1, None)


def choice_of_guided_head(config: Mapping[str, Any]) -> Choice | None:
    """The choice of the head that was trained to align, with shift 0; None without such a head.

    Args:
        config: configuration of a checkpoint; older ones have no entry for guidance.
    """
    options = config.get("guided")
    if options is None:
        return None
    guided = Choice(0, options["layer"] - 1, options["head"] - 1, near=GUIDED_NEAR)
    return guided._replace(competing=False)


def check_choice(choice: Choice, layers: int, heads: int) -> None:
    """Check a choice. Raises: ConfigError if the model has no such layer or head."""
    for what, index, count in (("layer", choice.layer, layers), ("head", choice.head or 0, heads)):
        if not 0 <= index < count:
            raise ConfigError(f"{what} {index + 1} does not exist: there are 1 ... {count}")


def describe_choice(choice: Choice, layers: int, heads: int, *, apart: bool = False) -> str:
    """Describe a choice in words; layers and heads are counted from 1, as users do.

    Args:
        apart: True if each head is shown separately.
    """
    if choice.head is not None:
        shown = f", head {choice.head + 1} of {heads}"
    elif heads > 1:
        shown = f", each of {heads} heads" if apart else ", all heads"
    else:
        shown = ""
    later = ", one step later" if choice.shift else ""
    threshold = f", links of {choice.threshold:.0%} or more" if choice.threshold else ""
    near = f", and of {choice.near:.0%} of the largest" if choice.near < 1 else ""
    plain = "" if choice.competing or apart else ", plain weights"
    return f"decoder layer {choice.layer + 1} of {layers}{shown}{later}{threshold}{near}{plain}"


def is_mark(word: Word) -> bool:
    return not any(map(str.isalnum, word.text))


def choice_file(checkpoint: Path) -> Path:
    """The path of the file that holds the choice for a checkpoint."""
    return checkpoint.with_suffix(".alignment.json")


def save_choice(checkpoint: Path, choice: Choice, **known: Any) -> Path:
    """Save a choice beside its checkpoint. Returns: the file.

    Args:
        known: further entries for readers of the file, such as the error rate.

    Raises: OSError if the file cannot be written.
    """
    entry = {"checkpoint": checkpoint.name, "sha256": checksum(checkpoint)}
    path = choice_file(checkpoint)
    write_text(path, json.dumps(entry | choice_options(choice) | known, indent=1) + "\n")
    return path


def choice_options(choice: Choice) -> dict[str, Any]:
    """A choice as command-line options; layer and head are counted from 1."""
    heads = "mean" if choice.head is None else choice.head + 1
    values = choice.shift, choice.layer + 1, heads, *choice[3:]
    return dict(zip(OPTIONS, values, strict=True))


def load_choice(checkpoint: Path) -> Choice | None:
    """The choice saved for a checkpoint, or None. A choice made for other weights is ignored with a
    warning.

    Raises: DataError if the file is damaged.
    """
    path = choice_file(checkpoint)
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read the choice in {path}: {error}. {HINT}") from error
    choice = parse_choice(entry)
    if choice is None:
        raise DataError(f"{path} holds no choice of a layer, heads and a shift. {HINT}")
    if entry.get("sha256") != checksum(checkpoint):
        warnings.warn(
            f"{path} is not used, because it was chosen for other weights than {checkpoint.name} "
            f"has now. {HINT}",
            stacklevel=2,
        )
        return None
    return choice


def best_known_choice(checkpoint: Path, config: Mapping[str, Any], layers: int) -> Choice:
    """The choice saved for a checkpoint; otherwise the head that was trained to align; otherwise a
    guess.

    Raises: DataError if the file of the saved choice is damaged.
    """
    known = load_choice(checkpoint) or choice_of_guided_head(config)
    return known or guess_choice(config, layers)


def parse_choice(entry: Any) -> Choice | None:
    if not isinstance(entry, dict):
        return None
    # Older files call the threshold "least", have no "near", and were chosen for plain weights.
    entry = {"threshold": entry.get("least", 0.0), "near": 1.0, "competing": False, **entry}
    if not matches(entry, OPTIONS):
        return None
    shift, layer, heads, threshold, near, competing = map(entry.get, OPTIONS)
    exists = shift in SHIFTS and layer >= 1 and (heads == "mean" or heads >= 1)
    if not (exists and 0 <= threshold <= 1 and 0 < near <= 1):
        return None
    head = None if heads == "mean" else heads - 1
    return Choice(shift, layer - 1, head, threshold, near, competing)


def checksum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
