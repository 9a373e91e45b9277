"""Position schemes: what they add, where their tables end, and what a decoder does there."""

import pytest
import torch
from helpers.builders import assert_equal, position_scheme, small_model, source_batch
from torch import Tensor, nn

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS
from seq2seq.decoding import Beam, Greedy, Search, decode
from seq2seq.functional.positions import alibi, distances
from seq2seq.models import Seq2Seq
from seq2seq.models.layers.positions import Learned, PositionScheme, T5Bias


def short_model(length: int = 6) -> Seq2Seq:
    return small_model("transformer", "position=learned", f"position.length={length}")


def test_learned_positions_are_rows_of_a_table() -> None:
    scheme, x = Learned(False, 8, length=10).double(), torch.randn(2, 3, 8).double()
    positions = torch.tensor([4, 5, 9])
    assert_equal(scheme.embed(x, positions), x + scheme.table.weight[[4, 5, 9]])
    rows = torch.stack([positions, positions - 4])
    assert_equal(scheme.embed(x, rows)[1], x[1] + scheme.table.weight[[0, 1, 5]])


@pytest.mark.parametrize(
    "scheme", [Learned(False, 64, length=1000), T5Bias(False, 64, num_heads=32)], ids=["l", "t5"]
)
def test_fresh_positions_have_the_variance_of_one_over_the_width(scheme: nn.Module) -> None:
    (table,) = scheme.parameters()
    assert table.std().item() == pytest.approx(1 / 8, rel=0.1)


def test_schemes_that_add_to_scores_act_nowhere_else() -> None:
    x, positions = torch.randn(2, 3, 8), torch.tensor([4, 5, 9])
    for name in ("alibi", "t5"):
        scheme = position_scheme(name)
        assert scheme.hook == "bias"
        assert scheme.embed(x, positions) is x and scheme.rotate(x, positions) is x
        assert scheme.bias(distances(positions, 12), 4).shape == (4, 3, 12)
    for name in ("none", "sinusoidal", "learned", "rope"):
        assert position_scheme(name).bias(distances(positions, 12), 4) is None


def test_alibi_is_the_same_in_both_stacks() -> None:
    distance = distances(torch.arange(5), 5)
    for causal in (False, True):
        bias = position_scheme("alibi", causal).bias(distance, 3)
        assert_equal(bias, alibi(distance, 3))


@pytest.mark.parametrize("causal", [False, True])
def test_the_biases_of_t5_depend_on_the_distance_alone(causal: bool) -> None:
    scheme: PositionScheme = position_scheme("t5", causal)
    bias = scheme.bias(distances(torch.arange(40), 40), 4)
    assert bias is not None
    for distance in (-39, -9, -1, 0, 1, 7, 30):
        line = bias.diagonal(distance, dim1=1, dim2=2)
        assert_equal(line, line[:, :1].expand_as(line), 0)
    assert_equal(bias[:, 0, 1], bias[:, 0, 0], 0) if causal else None
    # An encoder tells both sides apart; a decoder's later keys are masked.
    assert torch.equal(bias[:, 3, 4], bias[:, 3, 3]) == causal
    assert not torch.equal(bias[:, 3, 2], bias[:, 3, 4])


def test_layers_share_the_biases_of_their_stack_and_stacks_share_none() -> None:
    model = small_model("transformer", "position=t5")
    tables = {name: x.shape for name, x in model.named_parameters() if "position" in name}
    assert tables == {
        "encoder_position.table.weight": (32, 4),
        "decoder_position.table.weight": (32, 4),
    }
    places = [m.place for m in model.modules() if hasattr(m, "place")]
    schemes = {place.role.value: set() for place in places}
    for place in places:
        schemes[place.role.value].add(id(place.position))
    assert all(len(ids) == 1 for ids in schemes.values())
    assert schemes["cross"] == {id(None)}
    assert schemes["encoder"] != schemes["decoder"]


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("position", ["learned", "t5"])
def test_each_stack_reads_its_table(position: str, stack: str) -> None:
    model = small_model("transformer", f"position={position}")
    source, target = source_batch(7), torch.randint(4, 11, (1, 5))
    states, hidden = model.encode(source).states, model(source, target).hidden
    with torch.no_grad():
        model.get_parameter(f"{stack}_position.table.weight").normal_()
    assert torch.equal(model.encode(source).states, states) == (stack == "decoder")
    assert not torch.allclose(model(source, target).hidden, hidden)


def test_sentences_as_long_as_the_table_are_read_and_written() -> None:
    model = short_model(6)
    assert model.max_length == 6
    model(source_batch(6), torch.randint(4, 11, (1, 6)))


def test_a_sentence_past_the_end_of_the_table_is_refused() -> None:
    model, short, long = short_model(6), torch.randint(4, 11, (1, 3)), torch.randint(4, 11, (1, 7))
    with pytest.raises(ConfigError, match=r"source of 7 pieces .* 6 positions .*length=7"):
        model.encode(source_batch(7))
    with pytest.raises(ConfigError, match="target of 7 pieces"):
        model(source_batch(3), long)
    state = model.start(model.encode(source_batch(3)))
    model.step(short, state)
    model.step(short, state)
    with pytest.raises(ConfigError, match="target of 7 pieces"):
        model.step(short[:, :1], state)


def without_end(model: Seq2Seq) -> Seq2Seq:
    """Make the model never write eos."""
    with torch.no_grad():
        bias: Tensor = model.embeddings.output.bias
        bias[EOS] = -1e9
    return model


@pytest.mark.parametrize("search", [Greedy(length_extra=50), Beam(beam_size=2, length_extra=50)])
def test_decoding_stops_at_the_end_of_the_table(search: Search) -> None:
    for hypotheses in decode(without_end(short_model(6)), source_batch(5, 2), search):
        assert [len(h.ids) for h in hypotheses] == [6] * len(hypotheses)
        assert all(h.truncated for h in hypotheses)


def test_a_shorter_limit_of_the_search_is_kept() -> None:
    search = Greedy(length_ratio=0, length_extra=4)
    for (hypothesis,) in decode(without_end(short_model(6)), source_batch(5, 2), search):
        assert len(hypothesis.ids) == 4
