"""Without gradients, a few queries take a faster path, with the answers of training."""

import torch
from cases import Case, by_default_kernel, every
from helpers.builders import assert_equal

from seq2seq.functional.decode import FEW
from seq2seq.testing.subject import make_inputs


@every(by_default_kernel)
def test_answers_without_gradients_are_those_of_training(case: Case) -> None:
    attention = case.build()
    for size in (1, 7, FEW + 1):
        x, source, mask, real = make_inputs(case, size)
        expected = attention(x, source, mask).out[real]
        with torch.no_grad():
            assert_equal(attention(x, source, mask).out[real], expected.detach(), 1e-12)
