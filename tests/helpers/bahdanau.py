"""The recurrent model, written out with loops."""

import numpy as np
from numpy import ndarray

from seq2seq.models import Seq2Seq

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
