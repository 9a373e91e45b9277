"""The floor: the matrix products of a translation, and nothing else."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.base.symbols import PAD
from seq2seq.models import Seq2Seq
from seq2seq.models.transformer import Transformer


class Step(NamedTuple):
    """A call of the model, which encodes source tokens or decodes target tokens."""

    encodes: bool
    rows: int  # tokens without padding


class Record:
    """Records how many tokens each call of a model computes; the model works as before."""

    def __init__(self, model: Seq2Seq):
        self.steps: list[Step] = []
        encode, step = model.encode, model.step

        def noted_encode(source: Tensor) -> Any:
            self.steps.append(Step(True, int((source != PAD).sum())))
            return encode(source)

        def noted_step(tokens: Tensor, *others: Any, **options: Any) -> Any:
            self.steps.append(Step(False, tokens.numel()))
            return step(tokens, *others, **options)

        model.encode = noted_encode  # type: ignore[method-assign]
        model.step = noted_step  # type: ignore[method-assign]


class Floor:
    """The products of a Transformer, bare: no attention, no norm, no search, no allocation.

    Maps with the same input are one product, as in the fastest engines.
    """

    def __init__(self, model: Seq2Seq):
        if not isinstance(model, Transformer):
            raise ValueError("the floor is defined for model=transformer only")
        of_source, of_step = [], []
        for layer in model.encoder:
            of_source += [*self_attention(layer), *feed(layer)]
        for layer in model.decoder:
            of_source.append(joined(layer.cross.k, layer.cross.v))
            cross = [layer.cross.q.weight, layer.cross.out.weight]
            of_step += [*self_attention(layer), *cross, *feed(layer)]
        of_step.append(model.embeddings.output.weight)
        # Transposed once: rows (N, in) x (in, out).
        self.of_source = [weight.detach().t().contiguous() for weight in of_source]
        self.of_step = [weight.detach().t().contiguous() for weight in of_step]
        self.buffers: dict[tuple[str, int], Tensor] = {}

    @torch.no_grad()
    def replay(self, steps: list[Step]) -> None:
        for encodes, rows in steps:
            for weight in self.of_source if encodes else self.of_step:
                inputs, outputs = weight.shape
                out = self.buffer("out", rows, outputs)
                torch.mm(self.buffer("in", rows, inputs), weight, out=out)

    def buffer(self, use: str, rows: int, width: int) -> Tensor:
        """A reused buffer of (rows, width), which grows if it is too small."""
        kept = self.buffers.get((use, width))
        if kept is None or len(kept) < rows:
            kept = self.buffers[use, width] = torch.rand(rows, width)
        return kept[:rows]

    def multiplications(self, steps: list[Step]) -> int:
        """Multiply-adds in the products of these calls."""
        sizes = {True: self.of_source, False: self.of_step}
        each = {key: sum(weight.numel() for weight in weights) for key, weights in sizes.items()}
        return sum(each[step.encodes] * step.rows for step in steps)


def self_attention(layer: Any) -> list[Tensor]:
    attention = layer.attention
    return [joined(attention.q, attention.k, attention.v), attention.out.weight]


def feed(layer: Any) -> list[Tensor]:
    up = [layer.feed.up] if layer.feed.gate is None else [layer.feed.up, layer.feed.gate]
    return [joined(*up), layer.feed.down.weight]


def joined(*maps: Any) -> Tensor:
    return torch.cat([each.weight for each in maps])
