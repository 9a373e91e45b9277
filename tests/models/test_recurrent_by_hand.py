"""The recurrent models, compared with their equations written out token by token.

    h_j = [forward cell up to j; backward cell down to j]      s_0 = tanh(W0 [h_last; h_first] + b0)

Bahdanau:

    e_ij = u . tanh(Wq s_{i-1} + Wk h_j + b)                   c_i = sum_j softmax_j(e_ij) h_j
    s_i = cell([y_{i-1}; c_i], s_{i-1})                        t_i = tanh(W [s_i; c_i; y_{i-1}] + b)

Luong:

    s_i = cell([y_{i-1}; t_{i-1}], s_{i-1}), t_0 = 0           e_ij = s_i^T W h_j
    c_i = sum_j softmax_j(e_ij) h_j                            t_i = tanh(Wc [c_i; s_i] + b)

With several layers, s is that of the last layer, except in the argument of the cell.
"""

import numpy as np
import pytest
import torch
from helpers.builders import TARGET_SIZE, assert_equal, small_model, source_batch
from numpy import ndarray

from seq2seq.models import PassOptions, Seq2Seq

HALF, E = 16, 32
State = dict[str, ndarray]  # hidden, and cell for an LSTM


def sigmoid(x: ndarray) -> ndarray:
    return 1 / (1 + np.exp(-x))


class ByHand:
    """The equations, with the parameters of a model."""

    def __init__(self, model: Seq2Seq, cell: str = "gru", layers: int = 1):
        self.of = {name: x.detach().numpy() for name, x in model.state_dict().items()}
        self.cell, self.layers = cell, layers

    def linear(self, name: str, x: ndarray) -> ndarray:
        return self.of[f"{name}.weight"] @ x + self.of[f"{name}.bias"]

    def advance(self, where: str, suffix: str, x: ndarray, old: State) -> State:
        """One step of a cell, its gates in torch's order: r, z, n (GRU) or i, f, g, o (LSTM)."""
        h = old["hidden"]
        from_x = self.of[f"{where}.weight_ih{suffix}"] @ x + self.of[f"{where}.bias_ih{suffix}"]
        from_h = self.of[f"{where}.weight_hh{suffix}"] @ h + self.of[f"{where}.bias_hh{suffix}"]
        if self.cell == "gru":
            (xr, xz, xn), (hr, hz, hn) = np.split(from_x, 3), np.split(from_h, 3)
            z = sigmoid(xz + hz)
            return {"hidden": (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h}
        i, f, g, o = np.split(from_x + from_h, 4)
        c = sigmoid(f) * old["cell"] + sigmoid(i) * np.tanh(g)
        return {"hidden": sigmoid(o) * np.tanh(c), "cell": c}

    def encode(self, source: list[int]) -> ndarray:
        states = self.of["embeddings.source.weight"][source]
        for layer in range(self.layers):
            directions = []
            for suffix, tokens in ((f"_l{layer}", states), (f"_l{layer}_reverse", states[::-1])):
                state = {"hidden": np.zeros(HALF), "cell": np.zeros(HALF)}
                hidden = []
                for x in tokens:
                    state = self.advance("encoder", suffix, x, state)
                    hidden.append(state["hidden"])
                directions.append(hidden)
            states = np.concatenate([directions[0], directions[1][::-1]], axis=1)
        return states

    def first_states(self, states: ndarray) -> list[State]:
        """s_0 of every layer: first all hidden states, then all cells."""
        ends = np.concatenate([states[-1, :HALF], states[0, HALF:]])
        first = np.tanh(self.linear("first_state", ends)).reshape(-1, E)
        names = ["hidden", "cell"] if self.cell == "lstm" else ["hidden"]
        parts = dict(zip(names, np.split(first, len(names)), strict=True))
        return [{name: part[i] for name, part in parts.items()} for i in range(self.layers)]

    def attend(self, query: ndarray, states: ndarray) -> ndarray:
        """The weights (S,) of one query."""
        scores = []
        for h in states:
            key = self.of["cross.score.wk"][0] @ h + self.of["cross.score.b"][0]
            inner = np.tanh(self.of["cross.score.wq"][0] @ query + key)
            scores.append(self.of["cross.score.u"][0] @ inner)
        return np.exp(scores) / np.exp(scores).sum()

    def __call__(self, source: list[int], target: list[int]) -> tuple[ndarray, ndarray]:
        """Logits (T, V) and weights (T, S) of one sentence."""
        states = self.encode(source)
        s = self.first_states(states)
        logits, weights = [], []
        for token in target:
            y = self.of["embeddings.target.weight"][token]
            a = self.attend(s[-1]["hidden"], states)
            c = sum(weight * h for weight, h in zip(a, states, strict=True))
            x = np.concatenate([y, c])
            for layer in range(self.layers):
                s[layer] = self.advance(f"cells.{layer}", "", x, s[layer])
                x = s[layer]["hidden"]
            t = np.tanh(self.linear("readout", np.concatenate([x, c, y])))
            logits.append(self.linear("embeddings.output", t))
            weights.append(a)
        return np.array(logits), np.array(weights)


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
@pytest.mark.parametrize(
    ("equations", "variant"), [(ByHand, ("rnn", "attn=additive")), (LuongByHand, ("rnn_luong",))]
)
def test_a_recurrent_model_follows_its_equations(
    equations: type[ByHand], variant: tuple[str, ...], cell: str, layers: int
) -> None:
    model = small_model(*variant, f"model.cell={cell}", f"model.layers={layers}")
    source, target = source_batch(7, 4, 1), torch.randint(TARGET_SIZE, (3, 5))
    decoded = model(source, target, PassOptions(need_weights=True))
    assert decoded.weights is not None
    by_hand = equations(model, cell, layers)
    for row, length in enumerate((7, 4, 1)):
        logits, weights = by_hand(source[row, :length].tolist(), target[row].tolist())
        assert_equal(model.logits(decoded.hidden[row]), torch.from_numpy(logits))
        assert_equal(decoded.weights[0, row, 0, :, :length], torch.from_numpy(weights))


def test_the_backward_direction_begins_at_the_last_token_of_its_row() -> None:
    model, lengths = small_model("rnn"), (7, 4, 1)
    source = source_batch(*lengths)
    states, by_hand = model.encode(source).states, ByHand(model)
    for row, length in enumerate(lengths):
        last = by_hand.of["embeddings.source.weight"][source[row, length - 1]]
        zero = {"hidden": np.zeros(HALF)}
        first_step = by_hand.advance("encoder", "_l0_reverse", last, zero)["hidden"]
        assert_equal(states[row, length - 1, HALF:], torch.from_numpy(first_step))


def test_with_a_fixed_context_every_word_reads_the_final_states() -> None:
    model = small_model("rnn", "attn=fixed")
    source, target = source_batch(5), torch.randint(TARGET_SIZE, (1, 3))
    hidden, by_hand = model(source, target).hidden[0], ByHand(model)
    states = by_hand.encode(source[0].tolist())
    c = np.concatenate([states[-1, :HALF], states[0, HALF:]])
    (s,) = by_hand.first_states(states)
    for i, token in enumerate(target[0].tolist()):
        y = by_hand.of["embeddings.target.weight"][token]
        s = by_hand.advance("cells.0", "", np.concatenate([y, c]), s)
        read = by_hand.linear("readout", np.concatenate([s["hidden"], c, y]))
        assert_equal(hidden[i], torch.from_numpy(np.tanh(read)))
