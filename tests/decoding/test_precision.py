"""Models of the whole zoo decode in fewer bits, and the given model does not change."""

import pytest
import torch
from helpers.builders import TARGET_SIZE, presets, small_model, source_batch
from helpers.native_code import needs_native
from torch import nn

from seq2seq.base.errors import ConfigError
from seq2seq.decoding import Beam, decode, native
from seq2seq.decoding.native.linear import NativeLinear, pack_matrix
from seq2seq.decoding.native.quantization import MAX_INPUTS, Int8Linear
from seq2seq.decoding.precision import PackedLinear, with_precision
from seq2seq.models import Seq2Seq

VARIANTS = [f"transformer attn={preset}" for preset in presets("attn")]
VARIANTS += ["transformer position=t5 model.norm=rmsnorm model.activation=swiglu"]
VARIANTS += ["transformer position=rope attn=mla", "transformer position=alibi model.tie=none"]
for recurrent in ("rnn", "rnn_luong"):
    VARIANTS += [recurrent, f"{recurrent} attn=mla", f"{recurrent} model.cell=lstm model.layers=2"]


def build(variant: str) -> Seq2Seq:
    return small_model(*variant.split()).float()


def logits(model: Seq2Seq, *batch: torch.Tensor) -> torch.Tensor:
    return model.logits(model(*batch).hidden)


@pytest.mark.parametrize("precision", ["int8", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_every_model_decodes_in_fewer_bits_and_is_not_changed(variant: str, precision: str) -> None:
    model = build(variant)
    batch = source_batch(7, 4, 1), torch.randint(4, TARGET_SIZE, (3, 5))
    expected = logits(model, *batch)
    reduced = with_precision(model, precision)
    actual = logits(reduced, *batch).float()
    difference = (actual - expected).norm() / expected.norm()
    assert 0 < difference < 0.1
    for hypotheses in decode(reduced, batch[0], Beam(beam_size=2)):
        assert all(torch.tensor(h.score).isfinite() for h in hypotheses) and hypotheses
    assert torch.equal(logits(model, *batch), expected)


def test_int8_converts_the_linear_maps_and_shares_everything_else() -> None:
    model = build("transformer model.tie=target")
    reduced = with_precision(model, "int8")
    kinds = {type(module) for module in reduced.modules()}
    assert nn.Linear not in kinds and kinds & {Int8Linear, NativeLinear}
    parameters = {id(p): p for p in model.parameters()}
    shared = {p.data_ptr() for p in model.parameters()}
    assert parameters and all(p.data_ptr() in shared for p in reduced.parameters())
    target = reduced.embeddings.target.weight
    assert target.dtype == torch.float32 and torch.equal(target, model.embeddings.target.weight)


@torch.no_grad()
def test_bfloat16_converts_parameters_and_memories_and_keeps_ties() -> None:
    model = build("transformer model.tie=target")
    reduced = with_precision(model, "bfloat16")
    assert {p.dtype for p in reduced.parameters()} == {torch.bfloat16}
    assert reduced.embeddings.output.weight is reduced.embeddings.target.weight
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    sizes = []
    for one in (model, reduced):
        state = one.start(one.encode(source_batch(7, 4)))
        one.step(torch.ones(2, 3, dtype=torch.long), state)
        sizes.append(sum(m.nbytes for m in (*state.source, *state.past)))
    assert sizes[0] == 2 * sizes[1]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_float32_is_the_same_function_with_the_same_parameters(variant: str) -> None:
    model = small_model(*variant.split()).eval()  # in float64: the two sum in different orders
    batch = source_batch(7, 4, 1), torch.randint(4, TARGET_SIZE, (3, 5))
    same = with_precision(model, "float32")
    torch.testing.assert_close(logits(same, *batch), logits(model, *batch), atol=1e-12, rtol=1e-12)
    expected = decode(model, batch[0], Beam(beam_size=2))
    for actual, hypotheses in zip(decode(same, batch[0], Beam(beam_size=2)), expected, strict=True):
        assert [h.ids for h in actual] == [h.ids for h in hypotheses]
    before = model.state_dict()
    for name, value in same.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_in_float32_only_matrices_of_linear_maps_are_copied_and_only_on_a_cpu() -> None:
    model = build("transformer model.tie=target")
    same = with_precision(model, "float32")
    shared = {p.data_ptr() for p in model.parameters()}
    copied = {id(p) for p in same.parameters() if p.data_ptr() not in shared}
    linears = [m for m in same.modules() if isinstance(m, nn.Linear)]
    assert copied == {id(linear.weight) for linear in linears}
    assert all(linear.weight.t().is_contiguous() for linear in linears)
    assert same.embeddings.target.weight.is_contiguous()
    elsewhere = model.to("meta")
    assert with_precision(elsewhere, "float32") is elsewhere


def test_int8_keeps_recurrent_cells_in_float32() -> None:
    reduced = with_precision(build("rnn"), "int8")
    cells = [m for m in reduced.modules() if isinstance(m, nn.GRU | nn.GRUCell)]
    assert len(cells) == 2
    assert {p.dtype for cell in cells for p in cell.parameters()} == {torch.float32}


def test_an_unknown_precision_and_int8_off_the_cpu_are_refused() -> None:
    model = build("transformer")
    with pytest.raises(ConfigError, match="unknown precision 'bfloat'; did you mean 'bfloat16'"):
        with_precision(model, "bfloat")
    with pytest.raises(ConfigError, match="precision=bfloat16"):
        with_precision(model.to("meta"), "int8")


def test_int8_refuses_a_layer_whose_sums_may_overflow() -> None:
    model = small_model("transformer", "attn=mha")
    layer = model.decoder[1].feed
    for inputs in (MAX_INPUTS + 1, 133_145):
        layer.down = nn.Linear(inputs, 32)
        with pytest.raises(ConfigError, match=f"decoder.1.feed.down has {inputs:,} inputs"):
            with_precision(model, "int8")
    layer.down = nn.Linear(MAX_INPUTS, 32)
    with_precision(model, "int8")


@needs_native
def test_the_largest_sum_of_integers_that_is_allowed_is_exact() -> None:
    for sign in (1.0, -1.0):
        packed = pack_matrix(
            native.load_library(), torch.full((3, MAX_INPUTS), sign), None, int8=True
        )
        found = packed.product(torch.ones(2, MAX_INPUTS))
        torch.testing.assert_close(found, torch.full((2, 3), sign * MAX_INPUTS))


def test_in_bfloat16_linear_maps_are_packed_where_the_processor_can() -> None:
    reduced = with_precision(build("transformer"), "bfloat16")
    packed = {type(m) for m in reduced.modules()} & {PackedLinear, nn.Linear}
    probe = PackedLinear.of(nn.Linear(8, 8).bfloat16().requires_grad_(False))
    assert packed == {type(probe)}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 32), (70, 32), (2, 3, 32), (0, 32)], ids=str)
def test_a_packed_layer_equals_the_linear_layer_in_bfloat16(
    shape: tuple[int, ...], bias: bool
) -> None:
    linear = nn.Linear(32, 24, bias=bias).bfloat16().requires_grad_(False)
    x = torch.randn(shape).bfloat16()
    actual = PackedLinear.of(linear)(x)
    exact = nn.functional.linear(
        x.double(), linear.weight.double(), linear.bias.double() if bias else None
    )
    assert actual.dtype == torch.bfloat16
    # Half a unit of 8 significant bits, and the order of sums in float32.
    torch.testing.assert_close(actual.double(), exact, atol=1e-5, rtol=2**-8)


def test_where_there_is_no_packed_kernel_the_linear_stays() -> None:
    linear = nn.Linear(4, 3, device="meta", dtype=torch.bfloat16)
    assert PackedLinear.of(linear) is linear
