"""Find the differences between two models: their options, tokenizers and shapes of weights."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seq2seq.checkpoint import Saved

MODEL_NODES = ("model", "position", "attention")  # parts of a configuration that define a model
# Options that do not change what a trained model computes.
RUNTIME_OPTIONS = ("dropout", "activation_dropout", "attention_dropout", "word_dropout", "kernel")
# The meaning of an option that an older checkpoint lacks.
EARLIER_DEFAULTS: dict[str, Any] = {
    "attention_dropout": 0.0,
    "word_dropout": 0.0,
    "r_drop": 0.0,
    "simcut": 0.0,
    "bpe_dropout": 0.0,
    "both_directions": False,
    "endpoint": False,
    "offset": 0,
    "share_layers": False,
    "zero_start": False,
    "groups": "none",
}
# Messages for differences whose values would not help a reader.
OTHER_TOKENIZER = "the tokenizer of the {} differs: it was learnt from other text or options"
DESCRIPTIONS = {
    "order.weights": "the weights of data.train differ, or its temperature",
    "order.stages": "data.stages differs",
    "order.directions": "the languages of data.train differ",
    "order.augment": "the probabilities of data.augment differ",
    "order.text": "data.train holds other text",
    "order.links": "guided.links holds other links",
    "tokenizer.source": OTHER_TOKENIZER.format("source"),
    "tokenizer.target": OTHER_TOKENIZER.format("target"),
}


class Difference(NamedTuple):
    """An option that differs between two models. A value is None if the model lacks the option."""

    name: str  # in full, such as attention.cross.score
    one: Any
    other: Any

    def __str__(self) -> str:
        values = f"{self.name} was {self.one!r} and is {self.other!r} now"
        return DESCRIPTIONS.get(self.name, values)


def find_differences(
    one: Saved, other: Saved, *, nodes: Sequence[str] = MODEL_NODES, ignore: Container[str] = ()
) -> list[Difference]:
    """The options and tokenizers in which two models differ; if there are none, the weights whose
    shapes differ.

    Args:
        nodes: parts of the configurations to compare; the options of token groups and of
            context are always compared.
        ignore: options to leave out.
    """
    before, now = comparable_nodes(one, nodes), comparable_nodes(other, nodes)
    differences = [
        difference
        for node in now
        for difference in list_differences(before[node], now[node], node)
        if difference.name.rpartition(".")[2] not in ignore
    ]
    if differences:
        return differences
    there, here = ({n: tuple(w.shape) for n, w in m.weights.items()} for m in (one, other))
    return list(list_differences(there, here, "weights"))


def comparable_nodes(saved: Saved, nodes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The named parts of a model's configuration, its options of token groups and context, and its
    tokenizers as text.
    """
    data = saved.config["data"]
    return {
        **{node: saved.config.get(node) or {} for node in nodes},
        "data": {
            "context": data.get("context", 0),  # older models lack it
            **{name: data[name] for name in ("groups", "sentence_separator") if name in data},
        },
        "tokenizer": {"source": saved.source.to_json(), "target": saved.target.to_json()},
    }


def list_differences(
    one: Mapping[str, Any], other: Mapping[str, Any], name: str
) -> Iterator[Difference]:
    """All options, at any depth, in which two parts called `name` differ."""
    for key in sorted({*one, *other}):
        a = one.get(key, EARLIER_DEFAULTS.get(key))
        b = other.get(key, EARLIER_DEFAULTS.get(key))
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from list_differences(a, b, f"{name}.{key}")
        elif a != b:
            yield Difference(f"{name}.{key}", a, b)
