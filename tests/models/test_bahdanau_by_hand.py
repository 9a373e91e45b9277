"""The recurrent model against Bahdanau's equations, written out one token at a time.

    h_j = [forward cell up to j; backward cell down to j]      s_0 = tanh(W0 [h_last; h_first] + b0)
    e_ij = u . tanh(Wq s_{i-1} + Wk h_j + b)                   c_i = sum_j softmax_j(e_ij) h_j
    s_i = cell([y_{i-1}; c_i], s_{i-1})                        t_i = tanh(W [s_i; c_i; y_{i-1}] + b)

Where there are several layers, s in the first and last line and in the score is that of the last.
"""

import numpy as np
import pytest
import torch
from helpers.bahdanau import HALF, ByHand
from helpers.builders import TARGET_SIZE, assert_equal, small_model, source_batch


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_model_is_bahdanaus_equations(cell: str, layers: int) -> None:
    model = small_model("rnn", "attn=additive", f"model.cell={cell}", f"model.layers={layers}")
    source, target = source_batch(7, 4, 1), torch.randint(TARGET_SIZE, (3, 5))
    decoded = model(source, target, need_weights=True)
    assert decoded.weights is not None
    by_hand = ByHand(model, cell, layers)
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
