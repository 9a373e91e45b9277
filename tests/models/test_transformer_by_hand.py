"""The Transformer against the equations of Vaswani et al. 2017, a sentence and a head at a time.

The norm stands before each sub-layer, as in the default configuration, and once at the end.
"""

import math

import numpy as np
import torch
from helpers.builders import TARGET_SIZE, assert_equal, small_model, source_batch
from numpy import ndarray

from seq2seq.models import Seq2Seq

E, HEADS, LAYERS = 32, 4, 2


def position_vectors(length: int) -> ndarray:
    """Sines in the first half, cosines in the second."""
    table = np.zeros((length, E))
    for p in range(length):
        for i in range(E // 2):
            angle = p / 10_000 ** (2 * i / E)
            table[p, i], table[p, E // 2 + i] = math.sin(angle), math.cos(angle)
    return table


class ByHand:
    """The equations, with the parameters of a model."""

    def __init__(self, model: Seq2Seq):
        self.of = {name: x.detach().numpy() for name, x in model.state_dict().items()}

    def linear(self, name: str, x: ndarray) -> ndarray:
        return x @ self.of[f"{name}.weight"].T + self.of.get(f"{name}.bias", 0.0)

    def norm(self, name: str, x: ndarray) -> ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-5)
        return scaled * self.of[f"{name}.weight"] + self.of[f"{name}.bias"]

    def embed(self, which: str, ids: list[int]) -> ndarray:
        vectors = self.of[f"embeddings.{which}.weight"][ids] * math.sqrt(E)
        return vectors + position_vectors(len(ids))

    def attention(self, name: str, x: ndarray, source: ndarray, causal: bool) -> ndarray:
        q, k, v = (
            np.split(self.linear(f"{name}.{which}", states), HEADS, axis=-1)
            for which, states in (("q", x), ("k", source), ("v", source))
        )
        heads = []
        for head in range(HEADS):
            scores = q[head] @ k[head].T / math.sqrt(E / HEADS)
            if causal:
                scores[np.triu_indices(len(x), 1)] = -np.inf
            weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
            heads.append(weights @ v[head])
        return self.linear(f"{name}.out", np.concatenate(heads, axis=-1))

    def feed(self, layer: str, x: ndarray) -> ndarray:
        y = self.norm(f"{layer}.around_feed.norm", x)
        inner = np.maximum(self.linear(f"{layer}.feed.up", y), 0)
        return x + self.linear(f"{layer}.feed.down", inner)

    def attend(self, layer: str, x: ndarray, causal: bool) -> ndarray:
        y = self.norm(f"{layer}.around_attention.norm", x)
        return x + self.attention(f"{layer}.attention", y, y, causal)

    def __call__(self, source: list[int], target: list[int]) -> ndarray:
        """Logits (T, V) of one sentence."""
        x = self.embed("source", source)
        for layer in (f"encoder.{i}" for i in range(LAYERS)):
            x = self.feed(layer, self.attend(layer, x, causal=False))
        encoded = self.norm("encoder_norm", x)
        x = self.embed("target", target)
        for layer in (f"decoder.{i}" for i in range(LAYERS)):
            x = self.attend(layer, x, causal=True)
            y = self.norm(f"{layer}.around_cross.norm", x)
            x = self.feed(layer, x + self.attention(f"{layer}.cross", y, encoded, causal=False))
        return self.linear("embeddings.output", self.norm("decoder_norm", x))


def test_the_model_follows_the_equations_of_the_paper() -> None:
    model = small_model("transformer", "attn=mha", "position=sinusoidal")
    source, target = source_batch(7, 4, 1), torch.randint(TARGET_SIZE, (3, 5))
    logits = model.logits(model(source, target).hidden)
    by_hand = ByHand(model)
    for row, length in enumerate((7, 4, 1)):
        expected = by_hand(source[row, :length].tolist(), target[row].tolist())
        # Position vectors are float32 in a model of any precision.
        assert_equal(logits[row], torch.from_numpy(expected), 1e-5)
