"""The recurrent model against Bahdanau's equations, written out one token and one number at a time.

h_j = [forward GRU up to j; backward GRU down to j]        s_0 = tanh(W0 [h_last; h_first] + b0)
e_ij = u . tanh(Wq s_{i-1} + Wk h_j + b)                   c_i = sum_j softmax_j(e_ij) h_j
s_i = GRU([y_{i-1}; c_i], s_{i-1})                         t_i = tanh(W [s_i; c_i; y_{i-1}] + b)
"""

import numpy as np
import torch
from helpers import TARGET_SIZE, assert_equal, small_model, source_batch
from numpy import ndarray
from torch import Tensor

from seq2seq.models import Seq2Seq
from seq2seq.models.rnn import RNN


def sigmoid(x: ndarray) -> ndarray:
    return 1 / (1 + np.exp(-x))


class ByHand:
    """The equations, with the parameters of a model."""

    def __init__(self, model: Seq2Seq):
        self.of = {name: x.detach().numpy() for name, x in model.state_dict().items()}

    def gru(self, where: str, suffix: str, x: ndarray, h: ndarray) -> ndarray:
        """One step of the gated unit (Cho et al. 2014), the gates in the order r, z, n."""
        from_x = self.of[f"{where}.weight_ih{suffix}"] @ x + self.of[f"{where}.bias_ih{suffix}"]
        from_h = self.of[f"{where}.weight_hh{suffix}"] @ h + self.of[f"{where}.bias_hh{suffix}"]
        (xr, xz, xn), (hr, hz, hn) = np.split(from_x, 3), np.split(from_h, 3)
        z = sigmoid(xz + hz)
        return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h

    def encode(self, source: list[int]) -> ndarray:
        embedded = [self.of["embeddings.source.weight"][i] for i in source]
        directions = []
        for suffix, tokens in (("_l0", embedded), ("_l0_reverse", embedded[::-1])):
            h, states = np.zeros(16), []
            for x in tokens:
                h = self.gru("encoder", suffix, x, h)
                states.append(h)
            directions.append(states)
        return np.concatenate([directions[0], directions[1][::-1]], axis=1)

    def __call__(self, source: list[int], target: list[int]) -> tuple[ndarray, ndarray]:
        """Logits (T, V) and weights (T, S) of one sentence."""
        states, of = self.encode(source), self.of
        ends = np.concatenate([states[-1, :16], states[0, 16:]])
        s = np.tanh(of["first_state.weight"] @ ends + of["first_state.bias"])
        logits, weights = [], []
        for token in target:
            y = of["embeddings.target.weight"][token]
            query = of["cross.score.wq"][0] @ s
            scores = []
            for h in states:
                key = of["cross.score.wk"][0] @ h + of["cross.score.b"][0]
                scores.append(of["cross.score.u"][0] @ np.tanh(query + key))
            a = np.exp(scores) / np.exp(scores).sum()
            c = sum(weight * h for weight, h in zip(a, states, strict=True))
            s = self.gru("cells.0", "", np.concatenate([y, c]), s)
            read = of["readout.weight"] @ np.concatenate([s, c, y]) + of["readout.bias"]
            logits.append(of["embeddings.output.weight"] @ np.tanh(read))
            weights.append(a)
        return np.array(logits) + of["embeddings.output.bias"], np.array(weights)


def test_the_model_is_bahdanaus_equations() -> None:
    model = small_model("rnn")
    source, target = source_batch(7, 4, 1), torch.randint(TARGET_SIZE, (3, 5))
    decoded = model(source, target, need_weights=True)
    assert decoded.weights is not None
    by_hand = ByHand(model)
    for row, length in enumerate((7, 4, 1)):
        logits, weights = by_hand(source[row, :length].tolist(), target[row].tolist())
        assert_equal(model.logits(decoded.hidden[row]), torch.from_numpy(logits))
        assert_equal(decoded.weights[0, row, 0, :, :length], torch.from_numpy(weights))


def test_the_backward_direction_begins_at_the_last_token_of_its_own_row() -> None:
    model = small_model("rnn")
    assert isinstance(model, RNN)
    source, lengths = source_batch(7, 4, 1), (7, 4, 1)
    states = model.encode(source).states
    by_hand = ByHand(model)
    for row, length in enumerate(lengths):
        last = by_hand.of["embeddings.source.weight"][source[row, length - 1]]
        first_step = by_hand.gru("encoder", "_l0_reverse", last, np.zeros(16))
        backward: Tensor = states[row, length - 1, 16:]
        assert_equal(backward, torch.from_numpy(first_step))


def test_with_a_fixed_context_every_word_reads_the_final_states() -> None:
    model = small_model("rnn", "attn=fixed")
    source, target = source_batch(5), torch.randint(TARGET_SIZE, (1, 3))
    hidden = model(source, target).hidden[0]
    by_hand = ByHand(model)
    states = by_hand.encode(source[0].tolist())
    c = np.concatenate([states[-1, :16], states[0, 16:]])
    s = np.tanh(by_hand.of["first_state.weight"] @ c + by_hand.of["first_state.bias"])
    for i, token in enumerate(target[0].tolist()):
        y = by_hand.of["embeddings.target.weight"][token]
        s = by_hand.gru("cells.0", "", np.concatenate([y, c]), s)
        read = by_hand.of["readout.weight"] @ np.concatenate([s, c, y])
        expected = np.tanh(read + by_hand.of["readout.bias"])
        assert_equal(hidden[i], torch.from_numpy(expected))
