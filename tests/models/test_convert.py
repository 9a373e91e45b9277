"""Multi-head attention converted to grouped-query attention by averaging heads."""

import pytest
import torch
from helpers.builders import assert_equal, small_model, source_batch
from torch import Tensor

from seq2seq.base.errors import ConfigError
from seq2seq.models import Seq2Seq
from seq2seq.training.resume import mean_of_groups, share_heads

HEADS, WIDTH = 4, 8
SHARED = [".k.weight", ".k.bias", ".v.weight", ".v.bias"]


def answer(model: Seq2Seq) -> Tensor:
    torch.default_generator.manual_seed(3)
    return model(source_batch(7, 4, 1), torch.randint(4, 11, (3, 5))).hidden


def of_heads(name: str) -> bool:
    return any(name.endswith(ending) for ending in SHARED)


def test_the_same_number_of_heads_changes_nothing() -> None:
    state = small_model("transformer", "attn=mha").state_dict()
    fitted = share_heads(state, small_model("transformer", "attn=mha"))
    assert fitted.keys() == state.keys()
    assert all(fitted[name] is state[name] for name in state)


@pytest.mark.parametrize("groups", [1, 2])
def test_groups_of_equal_heads_answer_as_before(groups: int) -> None:
    full = small_model("transformer", "attn=mha", "attn.bias=true")
    state = full.state_dict()
    for name in filter(of_heads, state):
        of_groups = state[name].unflatten(0, (HEADS, WIDTH))[:groups]
        repeated = of_groups.repeat_interleave(HEADS // groups, dim=0).flatten(0, 1)
        state[name].copy_(repeated)
    expected = answer(full)
    chosen = "attn=gqa", f"attn.num_kv_heads={groups}", "attn.bias=true"
    shared = small_model("transformer", *chosen)
    assert not torch.allclose(answer(shared), expected)
    shared.load_state_dict(share_heads(state, shared))
    assert_equal(answer(shared), expected)


def test_each_head_is_the_mean_of_its_group_and_nothing_else_changes() -> None:
    state = small_model("transformer", "attn=mha", "attn.bias=true").state_dict()
    before = {name: x.clone() for name, x in state.items()}
    shared = small_model("transformer", "attn=gqa", "attn.num_kv_heads=2", "attn.bias=true")
    fitted = share_heads(state, shared)
    changed = {name for name in state if fitted[name] is not state[name]}
    # two layers with one attention in the encoder, two in the decoder
    assert changed == set(filter(of_heads, state)) and len(changed) == 6 * len(SHARED)
    for name in changed:
        first, second, third, fourth = state[name].split(WIDTH)
        expected = torch.cat(((first + second) / 2, (third + fourth) / 2))
        assert_equal(fitted[name], expected)
    assert all(torch.equal(state[name], before[name]) for name in state)


def test_only_the_roles_that_share_heads_are_changed() -> None:
    state = small_model("transformer", "attn=mha").state_dict()
    shared = small_model("transformer", "attn=mha", "attn@decoder_attn=mqa")
    fitted = share_heads(state, shared)
    shared.load_state_dict(fitted)
    changed = {name for name in state if fitted[name] is not state[name]}
    assert changed and all(name.startswith("decoder") and ".attention." in name for name in changed)


def test_heads_that_no_group_can_share_evenly_are_refused() -> None:
    with pytest.raises(ConfigError, match="num_kv_heads=3: type a divisor of 4"):
        mean_of_groups(torch.zeros(HEADS * WIDTH), 3, WIDTH)
    with pytest.raises(ConfigError, match="num_kv_heads=4: type a divisor of 2"):
        mean_of_groups(torch.zeros(2 * WIDTH), 4, WIDTH)
