"""Two models compared: their options, their tokenizers, the shapes of their weights."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seq2seq.checkpoint import Saved

MODEL_NODES = ("model", "position", "attention")  # of a configuration: what a model computes
# Options that do not change what a trained model computes.
RUNTIME_OPTIONS = ("dropout", "activation_dropout", "attention_dropout", "word_dropout", "kernel")
# Values of options that older checkpoints lack.
EARLIER_DEFAULTS: dict[str, Any] = {
    "attention_dropout": 0.0,
    "word_dropout": 0.0,
    "r_drop": 0.0,
    "simcut": 0.0,
    "bpe_dropout": 0.0,
    "both_directions": False,
    "endpoint": False,
    "share_layers": False,
    "zero_start": False,
    "groups": "none",
}
# Differences whose values say nothing to a reader.
OTHER_TOKENIZER = "the tokenizer of the {} differs: it was learnt from other text or options"
DESCRIPTIONS = {
    "order.weights": "the weights of data.train differ",
    "order.stages": "data.stages differs",
    "order.augment": "the probabilities of data.augment differ",
    "order.text": "data.train holds other text",
    "order.links": "guided.links holds other links",
    "tokenizer.source": OTHER_TOKENIZER.format("source"),
    "tokenizer.target": OTHER_TOKENIZER.format("target"),
}


class Difference(NamedTuple):
    """The values of an option in two models; None where one lacks it."""

    name: str  # in full, such as attention.cross.score
    one: Any
    other: Any

    @property
    def option(self) -> str:
        """The last word of the name."""
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        values = f"{self.name} was {self.one!r} and is {self.other!r} now"
        return DESCRIPTIONS.get(self.name, values)


def find_differences(
    one: Saved, other: Saved, *, nodes: Sequence[str] = MODEL_NODES, ignore: Container[str] = ()
) -> list[Difference]:
    """The options and tokenizers in which two models differ, or else the shapes of weights.

    Args:
        nodes: of their configurations; the groups of tokens are compared always.
        ignore: options that are not compared.
    """
    before, now = comparable_nodes(one, nodes), comparable_nodes(other, nodes)
    differences = [
        difference
        for node in now
        for difference in list_differences(before[node], now[node], node)
        if difference.option not in ignore
    ]
    if differences:
        return differences
    there, here = ({n: tuple(w.shape) for n, w in m.weights.items()} for m in (one, other))
    return list(list_differences(there, here, "weights"))


def comparable_nodes(saved: Saved, nodes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Nodes of a model's configuration, the options of its groups, and its tokenizers as text."""
    data = saved.config["data"]
    return {
        **{node: saved.config.get(node) or {} for node in nodes},
        "data": {name: data[name] for name in ("groups", "sentence_separator") if name in data},
        "tokenizer": {"source": saved.source.to_json(), "target": saved.target.to_json()},
    }


def list_differences(
    one: Mapping[str, Any], other: Mapping[str, Any], name: str
) -> Iterator[Difference]:
    """All options in which two nodes of that name differ, at any depth."""
    for key in sorted({*one, *other}):
        a = one.get(key, EARLIER_DEFAULTS.get(key))
        b = other.get(key, EARLIER_DEFAULTS.get(key))
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from list_differences(a, b, f"{name}.{key}")
        elif a != b:
            yield Difference(f"{name}.{key}", a, b)
