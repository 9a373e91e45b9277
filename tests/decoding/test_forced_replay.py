"""What a model decodes step by step is what it would choose when it reads all of it at once."""

import pytest
import torch
from helpers.builders import TARGET_SIZE, every_attention, marked, small_model, source_batch
from torch import Tensor

from seq2seq.base.symbols import BOS, EOS, PAD, UNK
from seq2seq.decoding import Greedy, Hypothesis, build_search, decode
from seq2seq.models import Seq2Seq

LENGTHS = (9, 1, 5, 14, 3)
every_variant = pytest.mark.parametrize("variant", marked(every_attention()))


def forced(model: Seq2Seq, source: Tensor, written: list[list[int]]) -> Tensor:
    """The log-probabilities (B, T + 1, V) of the next token, when each row reads what it wrote."""
    target = torch.full((len(written), 1 + max(map(len, written))), PAD)
    target[:, 0] = BOS
    for row, ids in zip(target, written, strict=True):
        row[1 : len(ids) + 1] = torch.tensor(ids)
    with torch.no_grad():
        return model.logits(model(source, target).hidden).log_softmax(-1)


def chosen(h: Hypothesis) -> list[int]:
    """All tokens that the search chose, the end among them if it was reached."""
    return h.ids if h.truncated else [*h.ids, EOS]


@pytest.mark.parametrize("variant", marked(every_attention(), ("rnn attn=", "rnn_luong attn=")))
def test_greedy_search_writes_the_argmax_of_its_replay(variant: str) -> None:
    built, source = small_model(*variant.split()), source_batch(*LENGTHS)
    best = [one[0] for one in decode(built, source, Greedy(length_ratio=1.5, length_extra=4))]
    logp = forced(built, source, [h.ids for h in best])
    logp[..., [PAD, BOS, UNK]] = -torch.inf  # which no search writes
    for row, h in zip(logp, best, strict=True):
        tokens = chosen(h)
        assert row[: len(tokens)].argmax(-1).tolist() == tokens
        total = row[: len(tokens)].max(-1).values.sum().item()
        assert h.log_probability == pytest.approx(total, rel=1e-5)


@every_variant
def test_the_score_of_every_beam_is_its_probability(variant: str) -> None:
    """Beams change places at each step: what they remember must go with them."""
    built, source = small_model(*variant.split()), source_batch(*LENGTHS)
    search = build_search({"name": "beam", "beam_size": 3, "length_ratio": 1.5, "length_extra": 4})
    for row, hypotheses in enumerate(decode(built, source, search)):
        of_row = source[row : row + 1, : LENGTHS[row]].expand(len(hypotheses), -1)
        logp = forced(built, of_row, [h.ids for h in hypotheses])
        for values, h in zip(logp, hypotheses, strict=True):
            tokens = torch.tensor(chosen(h))
            total = values[: len(tokens)].gather(1, tokens[:, None]).sum().item()
            assert h.log_probability == pytest.approx(total, rel=1e-5)


def test_the_models_of_these_tests_write_more_than_one_word() -> None:
    """Otherwise replaying would show nothing."""
    built, source = small_model("transformer"), source_batch(*LENGTHS)
    written = [
        one[0].ids for one in decode(built, source, Greedy(length_ratio=1.5, length_extra=4))
    ]
    assert max(len(ids) for ids in written) > 4 and max(len(set(ids)) for ids in written) > 2
    assert all(token < TARGET_SIZE for ids in written for token in ids)
