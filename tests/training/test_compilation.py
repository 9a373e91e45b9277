"""`trainer.compile`: which layers can be compiled, and that compiled layers learn the same."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.builders import (
    TARGET_SIZE,
    every_other,
    presets,
    small_model,
    source_batch,
)
from helpers.tiny_runs import metrics, train_tiny, weights
from helpers.train_options import checked_plan, complaint
from torch import Tensor
from torch.fx.experimental import symbolic_shapes
from torch.nn import functional as F

from seq2seq.models import Seq2Seq
from seq2seq.training import compilation
from seq2seq.training.compilation import choose_compile, compile_layers, explain_eager

# Dynamo looks for gradients of tensors that are no leaves.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor", "ignore:`torch.jit.script_method` is deprecated"
)

REFUSED = {"flash", "longformer", "page_local", "ssru"}
MOST_GRAPHS = 3


@pytest.fixture(autouse=True)
def without_other_graphs() -> Iterator[None]:
    """Forget the graphs of other tests; equal sizes mean nothing, as in `compile_layers`."""
    torch.compiler.reset()
    with symbolic_shapes.config.patch(use_duck_shape=False):
        yield


class Graphs:
    """A backend that counts graphs and changes nothing."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        self.count += 1
        forward: Callable[..., Any] = graph.forward
        return forward


def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    """Sources with padding, and targets, of many shapes; the number of rows sometimes equals a
    length.
    """
    torch.manual_seed(1)
    shapes = [torch.randint(2, 20, (3,)).tolist() for _ in range(count)]
    return [
        (
            source_batch(S, *torch.randint(1, S, (B - 1,)).tolist()),
            torch.randint(3, TARGET_SIZE, (B, T)),
        )
        for B, S, T in shapes
    ]


KINDS = [*presets("attn"), *(f"position={name}" for name in presets("position"))]


QUICK = {"mha", "position=rope", *REFUSED}


@pytest.mark.parametrize(
    "preset", [pytest.param(kind, marks=[pytest.mark.slow] * (kind not in QUICK)) for kind in KINDS]
)
def test_a_kind_of_layer_is_one_of_few_graphs_or_refused(preset: str) -> None:
    typed = preset if "=" in preset else f"attn={preset}"
    model = small_model("transformer", typed, "model.dropout=0.1").train()
    refused = {type(layer) for layer in model.blocks if explain_eager(layer)}
    assert bool(refused) == (preset in REFUSED)
    graphs = {kind: Graphs() for kind in map(type, model.blocks)}
    for layer in model.blocks:
        if type(layer) not in refused:
            layer.compile(backend=graphs[type(layer)], fullgraph=True, dynamic=True)
    for source, target in batches(50):
        hidden, _ = model(source, target)
        hidden.sum().backward()
    for kind, made in graphs.items():
        assert made.count == 0 if kind in refused else 1 <= made.count <= MOST_GRAPHS


@pytest.mark.parametrize("preset", every_other(["gqa", "mha"]))
def test_queries_keys_and_values_are_one_product(preset: str) -> None:
    model = small_model("transformer", f"attn={preset}").train()
    found: dict[type, list[str]] = {}

    def backend(kind: type) -> Callable[..., Any]:
        def note(graph: Any, inputs: Any) -> Any:
            found[kind] = [str(node.target) for node in graph.graph.nodes]
            return graph.forward

        return note

    for layer in model.blocks:
        layer.compile(backend=backend(type(layer)), fullgraph=True, dynamic=True)
    model(*batches(1)[0])
    products = {kind.__name__: sum("linear" in name for name in found[kind]) for kind in found}
    # Self-attention: q k v, out. Cross-attention: q, k v, out. Feed-forward: up, down.
    assert products == {"EncoderLayer": 4, "DecoderLayer": 7}


def learn(model: Seq2Seq, updates: int) -> Tensor:
    """The losses of some updates, on batches of many shapes."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for source, target in batches(updates):
        optimizer.zero_grad()
        hidden, _ = model(source, target[:, :-1])
        scores = model.logits(hidden)
        loss = F.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten())
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["attn=gqa", "attn=mla"])
def test_compiled_layers_learn_as_eager_ones(typed: str) -> None:
    model = small_model("transformer", typed, "model.dropout=0", "position=rope").train()
    other = deepcopy(model)
    expected = learn(model, 200)
    compile_layers(other)
    assert (learn(other, 200) - expected).abs().max() <= 1e-5


@pytest.mark.slow
def test_a_compiled_run_resumes_to_the_bit(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    typed = (
        "trainer.compile=true",
        "model.decoder_layers=1",
        "trainer.val_check_interval=6",
        "schedule.steps=12",
    )
    whole = train_tiny(base, *typed, "trainer.max_steps=12")
    begun = train_tiny(base, *typed, "trainer.max_steps=6")
    torch.compiler.reset()  # as in another process
    rest = train_tiny(base, *typed, "trainer.max_steps=12", f"resume={begun / 'last.ckpt'}")
    eager = train_tiny(base, *typed, "trainer.max_steps=12", "trainer.compile=false")
    assert weights(whole).keys() == weights(eager).keys()
    for name, expected in weights(whole).items():
        assert torch.equal(weights(rest)[name], expected)
    assert len(metrics(whole, "train/loss")) == 12


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (("attn@decoder_attn=ssru",), "SSRU"),
        (("attn@encoder_attn=longformer",), "Longformer"),
        (("attn.kernel=flash",), "kernel=flash"),
        (("model=rnn",), "RNN"),
        (("trainer.precision=int8-aware",), "int8-aware"),
    ],
)
def test_what_cannot_be_compiled_is_refused_by_name(typed: tuple[str, ...], named: str) -> None:
    message = complaint("trainer.compile=true", *typed)
    assert named in message and "trainer.compile=auto" in message


def test_layers_that_cannot_be_compiled_are_left_as_they_are(capsys: Any) -> None:
    model = small_model("transformer", "attn@decoder_attn=ssru", "model.share_layers=true")
    compile_layers(model)
    assert capsys.readouterr().out.startswith("some layers are not compiled: SSRU ")
    encoder, decoder = model.blocks[0], model.blocks[-1]
    assert encoder._compiled_call_impl is not None and decoder._compiled_call_impl is None


@pytest.mark.parametrize(
    ("missing", "reason"), [("", None), ("triton", "triton"), ("cc", "compiler"), ("new", "old")]
)
def test_auto_compiles_on_gpus_that_can(
    missing: str, reason: str | None, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    options = checked_plan().trainer
    assert choose_compile(replace(options, accelerator="cpu")).compile is False
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(
        "torch.cuda.get_device_capability", lambda: (6, 1) if missing == "new" else (8, 0)
    )
    monkeypatch.setattr(compilation, "find_spec", lambda name: None if missing == name else name)
    monkeypatch.setattr("shutil.which", lambda name: None if missing == "cc" else name)
    assert choose_compile(options).compile is (reason is None)
    assert (reason or "compile: on") in capsys.readouterr().out
