"""The native decoder gives the numbers of torch for every model, cache and search that it covers;
other models stay on torch.
"""

import itertools
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest
import torch
from helpers.builders import TARGET_SIZE, source_batch, translate_copies
from helpers.native_code import needs_native
from helpers.native_models import (
    KINDS,
    MODELS,
    RNNS,
    SEARCHES,
    Phrase,
    assert_close,
    build,
    build_exact,
    on_torch,
)
from helpers.table_model import LENGTHS, make_requests
from torch import Tensor, nn

from seq2seq.base.symbols import EOS
from seq2seq.decoding import Engine, Hypothesis, SentenceRequest, build_search, decode, native
from seq2seq.decoding.native.base import NativeModel
from seq2seq.decoding.native.linear import NativeLinear, Packer, pack_matrix
from seq2seq.decoding.native.quantization import Int8Linear
from seq2seq.decoding.native.transformer import NativeTransformer
from seq2seq.decoding.precision import with_precision
from seq2seq.functional.int8 import quantize_matrix, quantize_rows
from seq2seq.models import Ensemble, Seq2Seq
from seq2seq.models.candidates import CandidateRequest
from seq2seq.models.layers.input_scale import set_input_scales

pytestmark = needs_native

COVERED = (*MODELS, *RNNS)


def translations(
    model: Seq2Seq, asked: list[SentenceRequest], search: str, **options: Any
) -> list[list[Hypothesis]]:
    engine = Engine(model, build_search(SEARCHES[search]), **options)
    return list(translate_copies(engine, asked))


def every_decoding() -> list[Any]:
    """Every variant with every cache and search; four in five are left for the slow tests."""
    every = itertools.product(COVERED, ("dense", "paged"), SEARCHES)
    return [
        pytest.param(*one, marks=[pytest.mark.slow] if number % 5 else [])
        for number, one in enumerate(every)
    ]


@pytest.mark.parametrize(("variant", "cache", "search"), every_decoding())
def test_translations_are_those_of_torch(
    variant: str, cache: str, search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, asked = build(variant), make_requests()
    fast = with_precision(model, "float32")
    assert isinstance(fast, NativeModel)
    slow = on_torch(model, "float32", monkeypatch)
    assert not isinstance(slow, NativeModel)
    expected = translations(slow, asked, search, cache=cache)
    assert_close(translations(fast, asked, search, cache=cache, rows=16), expected)


@pytest.mark.parametrize("variant", COVERED)
def test_scores_are_those_of_float64(variant: str) -> None:
    model, source = build_exact(variant), source_batch(5, 9, 2)
    search = build_search(SEARCHES["beam"])
    expected = decode(model, source, search)
    assert_close(decode(with_precision(model.float(), "float32"), source, search), expected)


@pytest.mark.parametrize("variant", COVERED)
@pytest.mark.parametrize("calibrated", [False, True])
def test_steps_in_int8_are_those_of_torch(
    variant: str, calibrated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except where the rounding of float32 leads to another integer."""
    model, source = build(variant), source_batch(5, 3, 8)
    layers = [name for name, each in model.named_modules() if type(each) is nn.Linear]
    set_input_scales(model, dict.fromkeys(layers, 0.02) if calibrated else {})
    models = with_precision(model, "int8"), on_torch(model, "int8", monkeypatch)
    states = [each.start(each.encode(source), 2) for each in models]
    differences = []
    for _ in range(12):
        tokens = torch.randint(4, TARGET_SIZE, (6, 1))
        one, other = (m.step(tokens, s).hidden for m, s in zip(models, states, strict=True))
        differences.append((one - other).abs() / other.std())
        for state in states:
            state.fork(torch.tensor([1, 1, 2, 2, 4, 5]))
    found = torch.cat(differences)
    assert found.quantile(0.9) < 1e-5 and found.max() < 0.1


@pytest.mark.parametrize("variant", KINDS)
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_sentence_is_decoded_to_the_bit_as_it_is_alone(
    variant: str, precision: str, search: str
) -> None:
    model, asked = with_precision(build(variant), precision), make_requests()
    alone = [translations(model, [request], search)[0] for request in asked]
    for cache in ("dense", "paged"):
        together = translations(model, asked, search, cache=cache, rows=20)
        assert [[h.token_logp for h in each] for each in together] == [
            [h.token_logp for h in each] for each in alone
        ]


@pytest.mark.parametrize("variant", KINDS)
def test_steps_of_one_and_of_several_tokens_can_be_mixed(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several tokens run in torch. Positions go beyond the first tables, and rows fork between."""
    model, source = build(variant), source_batch(5, 3)
    models = with_precision(model, "float32"), on_torch(model, "float32", monkeypatch)
    states = [each.start(each.encode(source), 2) for each in models]
    # A random model that is fed its own output is chaotic: torch's float32 is as far from float64.
    tolerance = 1e-3 if variant.startswith("rnn_luong") else 1e-4
    for n in (1, 3, 1, 260, 1, 1):
        tokens = torch.randint(4, TARGET_SIZE, (4, n))
        one, other = (m.step(tokens, s).hidden for m, s in zip(models, states, strict=True))
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)
        for state in states if n == 1 else ():
            state.fork(torch.tensor([1, 1, 2, 2]))


def test_saturated_gates_give_the_translations_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = build(MODELS[-1]), make_requests()
    with torch.no_grad():
        for layer in model.decoder:
            layer.attention.gate.bias[:] = torch.tensor([-1e4, -95, -20, 0, 20, 95, 1e4, 0] * 4)
    expected = translations(on_torch(model, "float32", monkeypatch), asked, "beam")
    assert_close(translations(with_precision(model, "float32"), asked, "beam"), expected)


@pytest.mark.parametrize("variant", KINDS)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_pickled_model_translates_the_same(variant: str, precision: str) -> None:
    model, asked = with_precision(build(variant), precision), make_requests()
    copied = pickle.loads(pickle.dumps(model))
    assert isinstance(copied, NativeModel)
    assert translations(copied, asked, "beam") == translations(model, asked, "beam")


@pytest.mark.parametrize("variant", KINDS)
def test_threads_may_decode_with_one_model(variant: str) -> None:
    model = with_precision(build(variant), "float32")
    batches = [make_requests(LENGTHS[:n]) for n in (1, 9, 4, 7) * 3]
    expected = [translations(model, asked, "beam") for asked in batches]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda asked: translations(model, asked, "beam"), batches))
    assert found == expected


@pytest.mark.parametrize("search", ["greedy", "beam", "diverse"])
@pytest.mark.parametrize("cache", ["dense", "paged"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_special_sentence_changes_no_bit_of_its_neighbours(
    search: str, cache: str, precision: str
) -> None:
    """Prefixes, constraints and forbidden repetitions, between sentences without."""
    model, plain = with_precision(build(MODELS[1]), precision), make_requests()
    kind = build_search(SEARCHES[search])
    longer = build_search({**SEARCHES[search], "min_length_extra": 4})
    special = [
        *(replace(request, prefix=[8, 6, 4, 9][:n]) for n, request in enumerate(make_requests())),
        *(replace(request, constraint=Phrase(False)) for request in make_requests()[:3]),
        *(
            replace(request, search=replace(kind, no_repeat_ngram=2))
            for request in make_requests()[:3]
        ),
        *(replace(request, search=longer) for request in make_requests()[:3]),
    ]
    if search == "beam":
        special += [replace(request, constraint=Phrase(True)) for request in make_requests()[:3]]
    alone = translations(model, plain, search, cache=cache)
    mixed = [each for pair in zip_longest(plain, special) for each in pair if each is not None]
    together = translations(model, mixed, search, cache=cache, rows=64)
    assert [found for asked, found in zip(mixed, together, strict=True) if asked in plain] == alone


@pytest.mark.parametrize("seed", range(20))
def test_candidates_for_any_request_are_those_of_torch(seed: int) -> None:
    model = with_precision(build("attn=mha"), "float32")
    torch.manual_seed(seed)
    N = 7

    def pairs() -> Tensor | None:
        some = torch.stack((torch.randint(N, (5,)), torch.randint(4, TARGET_SIZE, (5,))), 1)
        return some if torch.rand(()) < 0.5 else None

    request = CandidateRequest(
        3,
        torch.randint(-9, TARGET_SIZE, (N,)).clamp(min=-1) if seed % 2 else None,
        torch.rand(N) < 0.5 if seed % 3 else None,
        pairs(),
        pairs(),
        torch.randint(-5, TARGET_SIZE, (N, 2)).clamp(min=-1) if seed % 5 else None,
    )
    hidden = torch.randn(N, 32)
    found = model.candidates(hidden, request)
    expected = Seq2Seq.candidates(model, hidden, request)
    width = found.logp.shape[1]
    torch.testing.assert_close(found.logp, expected.logp[:, :width])
    possible = found.logp > -torch.inf
    assert torch.equal(found.ids[possible], expected.ids[:, :width][possible])
    assert not (expected.logp[:, width:] > -torch.inf).any()


def test_members_of_an_ensemble_run_in_the_native_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [build(MODELS[0]), build("attn=linear"), build(MODELS[-1]), build(RNNS[0])]
    model = Ensemble(members).eval()
    fast = with_precision(model, "float32")
    assert isinstance(fast, Ensemble)
    kinds = [isinstance(member, NativeModel) for member in fast.members]
    assert kinds == [True, False, True, True]
    asked = make_requests()
    expected = translations(on_torch(model, "float32", monkeypatch), asked, "beam")
    assert_close(translations(fast, asked, "beam"), expected)


@pytest.mark.parametrize(
    "variant",
    [
        "attn=linear",
        "attn=dot attn.score=additive",
        "attn=mla",
        "rnn attn=fixed",
        "rnn attn=gaussian",
        "rnn_luong attn=local_p",
        "rnn attn=additive model.num_heads=4 model.project_scores=true attn.num_kv_heads=2",
    ],
)
def test_models_that_are_not_covered_stay_on_torch(variant: str) -> None:
    model = build(variant)
    assert type(with_precision(model, "float32")) is type(model)


def test_the_given_model_is_not_changed() -> None:
    model, source = build(MODELS[2]), source_batch(4, 6)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    decode(with_precision(model, "int8"), source, build_search(SEARCHES["greedy"]))
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


@pytest.mark.parametrize("variant", KINDS)
def test_a_model_that_diverged_has_no_finite_score(variant: str) -> None:
    model = build(variant)
    with torch.no_grad():
        model.embeddings.target.weight[:, 0] = torch.nan
    for precision in ("float32", "int8"):
        found = translations(with_precision(model, precision), make_requests(), "greedy")
        assert all(math.isnan(each[0].score) for each in found)


SHAPES = [(1, 1, 1), (2, 5, 3), (3, 64, 33), (7, 131, 77), (13, 257, 96), (121, 300, 290)]


@pytest.mark.parametrize("variant", [MODELS[0], MODELS[2]])
def test_numbers_too_large_for_a_norm_give_no_finite_score(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(variant)
    layer: Any = model.decoder[0]  # type: ignore[index]
    layer.feed.down.weight.detach().mul_(1e30)
    for each in (on_torch(model, "float32", monkeypatch), with_precision(model, "float32")):
        found = translations(each, make_requests(), "greedy")
        assert all(not math.isfinite(hypotheses[0].score) for hypotheses in found)


@pytest.mark.parametrize("rows, inputs, outputs", SHAPES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_products_are_those_of_torch(rows: int, inputs: int, outputs: int, has_bias: bool) -> None:
    x, linear = torch.randn(rows, inputs), nn.Linear(inputs, outputs, bias=has_bias)
    expected = linear.double()(x.double()).float()
    packed = pack_matrix(native.load_library(), linear.float().weight, linear.bias, int8=False)
    assert torch.allclose(packed.product(x), expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("rows, inputs, outputs", SHAPES)
@pytest.mark.parametrize("extreme", [False, True])
def test_products_of_integers_are_exact(
    rows: int, inputs: int, outputs: int, extreme: bool
) -> None:
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    if extreme:  # all -127 or 127
        x, weight = x.sign(), weight.sign()
    (integers, scale), (of_weight, weight_scale) = quantize_rows(x), quantize_matrix(weight)
    exact = integers.double() @ of_weight.double().t()
    packed = pack_matrix(native.load_library(), weight, None, int8=True)
    expected = (exact * scale.double() * weight_scale.double().t()).float()
    assert torch.allclose(packed.product(x), expected, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("rows, inputs, outputs", SHAPES)
@pytest.mark.parametrize("scale", [1e-3, 0.01, 0.3])
def test_products_with_one_input_scale_are_those_of_torch_to_the_bit(
    rows: int, inputs: int, outputs: int, scale: float
) -> None:
    """Also where many are beyond the scale, and where a row is not finite."""
    linear, x = nn.Linear(inputs, outputs, bias=False), torch.randn(rows, inputs)
    x[-1, -1] = torch.inf if rows > 1 else 1e30
    set_input_scales(linear, {"": scale})
    fast = NativeLinear(Packer(native.load_library(), True), linear)
    expected = Int8Linear(linear)(x)
    assert torch.equal(fast(x).nan_to_num(7), expected.nan_to_num(7))
    assert expected[-1].isnan().all() == (rows > 1)
    again = pickle.loads(pickle.dumps(fast.packed))  # as workers get it
    assert torch.equal(again.product(x).nan_to_num(7), expected.nan_to_num(7))


def test_parts_of_a_map_share_its_memory() -> None:
    columns = native.load_library().s2s_panel_width()
    linear = nn.Linear(10, 2 * columns + 5)
    packed = pack_matrix(native.load_library(), linear.weight, linear.bias, int8=False)
    part = packed.part(columns, columns + 5)
    assert part is not None and packed.part(1, 3) is None
    assert part.panels.data_ptr() == packed.panels[10 * columns :].data_ptr()
    x = torch.randn(4, 10)
    assert torch.equal(part.product(x), packed.product(x)[:, columns:])


@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 4), (4,), (2, 3, 4)])
def test_linear_maps_take_any_shape(shape: tuple[int, ...]) -> None:
    linear = nn.Linear(4, 3)
    fast = NativeLinear(Packer(native.load_library(), False), linear)
    x = torch.randn(shape)
    assert torch.allclose(fast(x), linear(x), atol=1e-6)


@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize("no_eos", [False, True])
def test_candidates_are_the_best_of_all(count: int, no_eos: bool) -> None:
    """Also with equal and infinite logits, and more candidates than finite ones."""
    model = with_precision(build("attn=mha"), "float32")
    assert isinstance(model, NativeTransformer)
    head = nn.Linear(32, 700)
    with torch.no_grad():
        head.bias[::7] = -torch.inf
        head.weight[100:200] = head.weight[:100]
    model.model.embeddings.output = NativeLinear(Packer(native.load_library(), False), head)
    rows = torch.tensor([no_eos, False, no_eos])
    request = CandidateRequest(count, no_eos=rows if no_eos else None)
    hidden = torch.randn(3, 32)
    actual = model.candidates(hidden, request)
    expected = model.model.candidates(hidden, request)
    assert torch.allclose(actual.logp, expected.logp, atol=1e-5)
    logp = head(hidden).log_softmax(-1)
    assert torch.allclose(logp.gather(1, actual.ids), actual.logp, atol=1e-5)
    assert not (actual.ids == EOS)[rows].any() or not no_eos


@pytest.mark.parametrize("inputs", [64, 300, 1300])
@pytest.mark.parametrize("int8", [False, True])
def test_a_row_is_multiplied_to_the_bit_as_it_is_alone(inputs: int, int8: bool) -> None:
    x, weight = torch.randn(300, inputs), torch.randn(200, inputs)
    packed = pack_matrix(native.load_library(), weight, None, int8)
    alone = torch.cat([packed.product(row[None]) for row in x])
    for first, rows in ((0, 300), (1, 241), (2, 240), (30, 14), (7, 13), (5, 6), (4, 5), (9, 2)):
        assert torch.equal(packed.product(x[first : first + rows]), alone[first : first + rows])


@pytest.mark.parametrize("inputs", [1024, 2048])
def test_sums_are_more_exact_than_adding_in_order(inputs: int) -> None:
    x, weight = torch.randn(40, inputs), torch.randn(50, inputs)
    exact = x.double() @ weight.double().t()
    in_order = torch.zeros(40, 50)
    for i in range(inputs):
        in_order.addmm_(x[:, i : i + 1], weight[:, i : i + 1].t())
    found = pack_matrix(native.load_library(), weight, None, False).product(x)
    assert (found - exact).norm() < 0.6 * (in_order - exact).norm()


@pytest.mark.parametrize("position", ["alibi", "learned", "rope", "transformer_xl"])
def test_longer_tables_replace_shorter_ones_only_when_they_are_complete(
    position: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = with_precision(build(f"attn=mha position={position}"), "float32")
    assert isinstance(model, NativeTransformer)
    stack, embedding = model.stack, model.embedding
    before = embedding.max_positions
    scheme, hook = stack.position, stack.position.hook
    monkeypatch.setattr(scheme, "max_length", None)
    make, seen = getattr(scheme, str(hook)), []

    def watched(*arguments: Any) -> Any:
        seen.append(embedding.max_positions)
        return arguments[0] if hook == "embed" else make(*arguments)

    monkeypatch.setattr(scheme, str(hook), watched)
    stack.extend_tables(before + 1)
    assert set(seen) == {before} and embedding.max_positions > before
