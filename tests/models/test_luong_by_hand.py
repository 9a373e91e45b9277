"""The recurrent model against Luong's equations, written out one token and one number at a time.

    s_i = cell([y_{i-1}; t_{i-1}], s_{i-1}), t_0 = 0       e_ij = s_i^T W h_j
    c_i = sum_j softmax_j(e_ij) h_j                        t_i = tanh(Wc [c_i; s_i] + b)

Encoder, cells and first state are those of Bahdanau's model; where there are several layers, s in
the score and in the last line is that of the last.
"""

import numpy as np
import pytest
import torch
from helpers.bahdanau import ByHand
from helpers.builders import TARGET_SIZE, assert_equal, small_model, source_batch
from numpy import ndarray

E = 32


class LuongByHand(ByHand):
    """The equations, with the parameters of a model."""

    def attend(self, query: ndarray, states: ndarray) -> ndarray:
        """The weights (S,) of one query."""
        scores = [query @ self.of["cross.score.weight"][0] @ h for h in states]
        return np.exp(scores) / np.exp(scores).sum()

    def __call__(self, source: list[int], target: list[int]) -> tuple[ndarray, ndarray]:
        """Logits (T, V) and weights (T, S) of one sentence."""
        states = self.encode(source)
        s, t = self.first_states(states), np.zeros(E)
        logits, weights = [], []
        for token in target:
            x = np.concatenate([self.of["embeddings.target.weight"][token], t])
            for layer in range(self.layers):
                s[layer] = self.advance(f"cells.{layer}", "", x, s[layer])
                x = s[layer]["hidden"]
            a = self.attend(x, states)
            c = sum(weight * h for weight, h in zip(a, states, strict=True))
            t = np.tanh(self.linear("readout", np.concatenate([c, x])))
            logits.append(self.linear("embeddings.output", t))
            weights.append(a)
        return np.array(logits), np.array(weights)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_model_is_luongs_equations(cell: str, layers: int) -> None:
    model = small_model("rnn_luong", f"model.cell={cell}", f"model.layers={layers}")
    source, target = source_batch(7, 4, 1), torch.randint(TARGET_SIZE, (3, 5))
    decoded = model(source, target, need_weights=True)
    assert decoded.weights is not None
    by_hand = LuongByHand(model, cell, layers)
    for row, length in enumerate((7, 4, 1)):
        logits, weights = by_hand(source[row, :length].tolist(), target[row].tolist())
        assert_equal(model.logits(decoded.hidden[row]), torch.from_numpy(logits))
        assert_equal(decoded.weights[0, row, 0, :, :length], torch.from_numpy(weights))
