"""The test of a compiled library: random models of all kinds decode a little with it and on torch.
`build` runs it once for each library, in a separate process. An operation that was compiled wrong
changes numbers by far more than rounding does.
"""

from contextlib import suppress
from copy import deepcopy
from ctypes import CDLL
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.attention.page_pool import PagePool
from seq2seq.base.errors import DataError
from seq2seq.base.symbols import EOS, PAD
from seq2seq.decoding.native.base import NativeModel
from seq2seq.decoding.native.layout import open_library
from seq2seq.decoding.native.linear import NativeLinear, Packer
from seq2seq.decoding.native.quantization import Int8Linear
from seq2seq.decoding.native.transformer import NativeTransformer
from seq2seq.decoding.precision import replace_linears, to_native
from seq2seq.models import Seq2Seq, build_model
from seq2seq.models.candidates import CandidateRequest
from seq2seq.models.layers.input_scale import set_input_scales

PIECES = 700
FLOAT32 = 2e-5  # maximum error, in standard deviations: several times the rounding error
SHARP = 1e-3  # maximum error for a softmax of scores in the hundreds
CALIBRATED = 2.5 / 127  # scale of inputs, a few of which are larger
INT8 = 0.01  # maximum mean error: float32 may round a few integers the other way


class Case(NamedTuple):
    """A kind of model, and how it decodes."""

    model: dict[str, Any]
    position: dict[str, Any]
    heads: tuple[int, int]  # H, G
    lengths: tuple[int, int]  # of sources
    sentences: int
    beams: int
    first: int = 0  # tokens that are read at once, before single steps
    pages: bool = False
    ssru: bool = False
    gain: float = 1.0  # factor of queries
    calibrated: bool = False  # True = in int8 all inputs have one scale
    score: str = ""  # attention score of a recurrent model, without projections


POST = {"norm_order": "post", "norm_eps": 0.02}
SWIGLU, GELU, SILU = ({"activation": name} for name in ("swiglu", "gelu", "silu"))
T5, XL = ({"name": name, "num_heads": 4} for name in ("t5", "transformer_xl"))
NONE, SINUSOIDAL = {"name": "none"}, {"name": "sinusoidal"}
GRU, LSTM = {"name": "rnn", "cell": "gru"}, {"name": "rnn", "cell": "lstm", "layers": 2}
LUONG = {"name": "rnn_luong"}
RMS = {"norm": "rmsnorm", "norm_eps": 0.02}
CASES = (
    Case({"dim": 256, "ffn_dim": 1040}, SINUSOIDAL, (8, 8), (1, 30), 60, 5),
    Case({"dim": 128, **SWIGLU, **RMS}, {"name": "rope"}, (4, 2), (1, 40), 41, 3, 3, pages=True),
    Case({"dim": 36, **GELU, **RMS, **POST}, {"name": "alibi"}, (3, 1), (250, 300), 2, 2, 255),
    Case({"dim": 60, **SILU, **POST}, {"name": "learned", "length": 300}, (1, 1), (1, 20), 30, 1),
    Case({"dim": 96, "ffn_dim": 272}, T5, (4, 2), (1, 9), 7, 4, 1, pages=True, calibrated=True),
    Case({"dim": 76, **SILU}, XL, (4, 2), (250, 300), 2, 3, 3, pages=True),
    Case({"dim": 72, **GELU}, SINUSOIDAL, (2, 1), (1, 9), 100, 3, ssru=True, calibrated=True),
    Case({"dim": 128}, NONE, (2, 2), (1, 9), 9, 1, gain=40.0),
    Case({"dim": 90, **GRU}, NONE, (1, 1), (1, 30), 31, 4, score="additive"),
    Case({"dim": 36, **LSTM}, NONE, (2, 2), (1, 9), 9, 3, 2, pages=True, score="additive"),
    Case({"dim": 76, **GRU, **LUONG}, NONE, (2, 2), (1, 9), 40, 1, score="general"),
    Case({"dim": 128, **LSTM, **LUONG}, NONE, (1, 1), (1, 20), 9, 2, score="scaled_dot"),
)


def main(path: str) -> int:
    """Test the library at a path. Returns: the exit code."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    try:
        run_self_test(open_library(path))
    except Exception as error:  # a wrong library may raise anything
        print(error)
        return 1
    return 0


@torch.no_grad()
def run_self_test(library: CDLL) -> None:
    """Compare all cases with torch. Raises: AssertionError at the first difference."""
    for case in CASES:
        model = random_model(case)
        for int8 in (False, True):
            compare_steps(library, case, model, int8)


def check_close(
    name: str, found: Tensor, expected: Tensor, limit: float, mean: bool = False
) -> None:
    """Check an error against a limit in standard deviations of the expected numbers.

    Raises: AssertionError if the error is larger.
    """
    error = (found - expected).abs() / expected.std().clamp(min=1e-3)
    worst = float(error.mean() if mean else error.max())
    if not worst <= limit:  # NaN is not
        raise AssertionError(f"{name} differ from torch's by {worst:.2g}, more than {limit:.2g}")


def random_model(case: Case) -> Seq2Seq:
    """A model in float64 with random weights that make every operation affect the result."""
    H, G = case.heads
    heads = {"name": "multihead", "num_heads": H, "num_kv_heads": G, "bias": not case.pages}
    attention: dict[str, Any] = dict.fromkeys(("encoder", "decoder", "cross"), heads)
    defaults = {"name": "transformer", "ffn_dim": 77, "encoder_layers": 1, "decoder_layers": 2}
    if case.ssru:
        attention["decoder"] = {"name": "ssru"}
    if case.score:
        options = {"num_heads": H, "score": case.score, "project": False}
        defaults, attention = {}, {"cross": {"name": "multihead", **options}}
    nodes = {"model": {**defaults, **case.model}, "position": case.position, "attention": attention}
    model = build_model(nodes, PIECES, PIECES).double().eval()
    for name, x in model.named_parameters():
        x.copy_(torch.randn(x.shape) * (x.shape[1] ** -0.5 if x.dim() == 2 else 0.3))
        if "norm.weight" in name:
            x.add_(1)
        if name.endswith(".q.weight"):
            x.mul_(2 * case.gain)
        if name == "readout.weight":  # otherwise cells make the states of all rows similar
            x.mul_(4)
    if case.calibrated:
        layers = (name for name, each in model.named_modules() if type(each) is nn.Linear)
        set_input_scales(model, dict.fromkeys(layers, CALIBRATED))
    # The largest logits come late, and special symbols would win if they were not banned.
    model.embeddings.output.bias.add_(torch.linspace(0, 6, PIECES))
    model.embeddings.output.bias[:5] += 6
    return model


def compare_steps(library: CDLL, case: Case, model: Seq2Seq, int8: bool) -> None:
    """Compare the steps of a model, and the best next tokens after each."""
    packer = Packer(library, int8)
    copies = deepcopy(model).float(), deepcopy(model).float() if int8 else model
    fast = to_native(copies[0], packer)
    assert fast is not None
    replace_linears(copies[0], partial(NativeLinear, packer))
    slow = replace_linears(copies[1], Int8Linear) if int8 else copies[1]
    limit = INT8 if int8 else SHARP if case.gain > 1 else FLOAT32
    kind = case.score or case.position["name"]
    name = f"{'int8' if int8 else 'float32'} steps with {kind}"
    pools = [PagePool(4000, 8) if case.pages else None for _ in range(2)]
    models = [(fast, pools[0]), (slow, pools[1])]
    check_refusals(fast)
    source, K, states = random_source(case), case.beams, []
    for each, pool in models:
        states.append(each.start(each.encode(source), K, pool))
    for i in range(7):
        print(flush=True)  # a sign of life: see `await_end` in build.py
        if i == 3 and case.pages:  # sentences that start later
            more = random_source(case)
            for (each, pool), state in zip(models, states, strict=True):
                state.merge(each.start(each.encode(more), K, pool))
        sentences = len(states[0].lengths)
        n = case.first if i == 1 and case.first else 1
        tokens = torch.randint(PIECES, (sentences * K, n)).clamp(min=PAD + 1)
        found, expected = (
            each.step(tokens, state).hidden for (each, _), state in zip(models, states, strict=True)
        )
        check_close(name, found, expected, limit, mean=int8)
        compare_candidates(fast, found[:, -1], 1 + 4 * i)
        parents = torch.arange(sentences)[:, None] * K + torch.randint(K, (sentences, K))
        kept = torch.arange(i % 2, sentences) if i > 3 else torch.arange(sentences)
        for state in states:
            state.fork(parents.flatten())
            state.keep(kept)


def check_refusals(model: NativeModel) -> None:
    """Check that invalid ids and positions are refused. Raises: AssertionError if not."""
    memories = model.memories(model.encode(torch.tensor([[EOS]])), 1)
    wrong = [(PIECES, 0), (-1, 0)]
    if isinstance(model, NativeTransformer):  # others have no positions
        wrong.append((EOS, -1))
    for token, position in wrong:
        with suppress(DataError):
            model.decode(torch.tensor([[token]]), memories, torch.tensor([position]))
            raise AssertionError("an id or a position beyond its tables is read")


def random_source(case: Case) -> Tensor:
    """Random padded ids, (B, S)."""
    low, high = case.lengths
    lengths = torch.linspace(low, high, case.sentences).long()
    source = torch.randint(PAD + 1, PIECES, (case.sentences, high))
    source[torch.arange(high) >= lengths[:, None]] = PAD
    return source


def compare_candidates(model: NativeModel, hidden: Tensor, count: int) -> None:
    """Compare the best next tokens with torch, with eos banned in some rows."""
    no_eos = torch.arange(len(hidden)) % 3 == 0
    whole = CandidateRequest(count, no_eos=no_eos if count > 1 else None)
    ids = torch.rand(3, PIECES - EOS).argsort(1)[:, :300].sort(1).values + EOS
    ids[:, 0] = EOS
    ids[0, 50:] = -1
    rows = torch.arange(len(hidden))
    pairs = torch.stack((rows, torch.randint(EOS + 1, PIECES, rows.shape)), 1)
    more = torch.where(no_eos[:, None], torch.randint(EOS + 1, PIECES, (len(hidden), 2)), -1)
    constrained = replace(whole, banned=pairs, required=more)
    for request in (whole, replace(whole, listed=ids[rows % 3]), constrained):
        found = model.candidates(hidden, request)
        expected = model.model.candidates(hidden, request)
        logp, wanted = found.logp.clamp(min=-30), expected.logp.clamp(min=-30)  # some are -inf
        check_close("probabilities", logp, wanted, FLOAT32)
        same = (found.ids == expected.ids).float().mean()
        if same < 0.99 or (found.ids[no_eos] == EOS).any() & (count > 1):
            raise AssertionError("the best next tokens are not those of torch")
