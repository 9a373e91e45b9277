"""`kernel=triton` is chosen by name only, and a model computes the same with it."""

import pytest
import torch
from helpers.builders import assert_equal, gradients, mask_of, model_config, randomised

pytest.importorskip(
    "triton", minversion="3.6", reason="pip install 'seq2seq-attention-zoo[triton]'"
)

from seq2seq.attention import Place, Role, build_attention
from seq2seq.base.errors import ConfigError
from seq2seq.checkpoint import with_kernels_of_this_machine
from seq2seq.functional.triton import launch
from seq2seq.models import build_model


@pytest.mark.parametrize(
    ("attention", "position"),
    [("gqa", "rope"), ("gaussian", "alibi"), ("additive", "t5")],
)
def test_a_model_computes_the_same_with_kernels_and_explicitly(
    attention: str, position: str, device: torch.device
) -> None:
    layers = "model.encoder_layers=1", "model.decoder_layers=1"
    config = model_config("transformer", *layers, f"position={position}", f"attn={attention}")
    mask = mask_of((5, 3), 5).to(device)
    source = torch.randint(4, 11, (2, 5), device=device).masked_fill(~mask, 0)
    target = torch.randint(4, 11, (2, 6), device=device)
    answers = []
    for kernel in ("explicit", "triton"):
        roles = {
            role: {**options, "kernel": kernel} for role, options in config["attention"].items()
        }
        torch.default_generator.manual_seed(0)
        model = randomised(build_model({**config, "attention": roles}, 13, 11)).float().to(device)
        hidden = model(source, target).hidden
        answers.append((hidden, *gradients(hidden.square().mean(), *model.parameters())))
    assert_equal(*answers, tolerance=1e-4)


@pytest.mark.usefixtures("device")
def test_a_checkpoint_is_read_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    config = model_config("transformer")
    roles = {role: {**options, "kernel": "triton"} for role, options in config["attention"].items()}
    trained = {**config, "attention": roles}
    assert with_kernels_of_this_machine(trained) == trained
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert with_kernels_of_this_machine(trained) == config


@pytest.mark.usefixtures("device")
def test_a_kernel_that_cannot_run_is_refused_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = dict(model_config("transformer")["attention"]["encoder"], kernel="triton")
    place = Place(Role.ENCODER, 32, 32)
    with pytest.raises(ConfigError, match="kernel=triton cannot .*=concat_linear.* Take kernel="):
        build_attention({**options, "score": "concat_linear"}, place)
    attention = build_attention(options, place)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ConfigError, match="this model is on device cpu. Take kernel=auto"):
        launch.check_tensor(torch.zeros(1))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="torch finds none here. Take kernel=auto"):
        build_attention(options, place)
    monkeypatch.setattr(launch, "version", lambda name: "3.5.1")
    with pytest.raises(ConfigError, match=r"needs .* 3.6 or newer, .*: 3.5.1.*: pip install '.*'"):
        build_attention(options, place)
    assert attention.kernel == "triton"
