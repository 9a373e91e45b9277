"""Refusals of what packed tokens do not support, before training starts."""

from collections.abc import Mapping
from typing import Any

import torch

from seq2seq.attention import Attention
from seq2seq.attention.multihead import MultiHead
from seq2seq.base.errors import ConfigError
from seq2seq.models import Seq2Seq
from seq2seq.models.transformer import Transformer
from seq2seq.training.config.options import INT8_AWARE

REFUSAL = "trainer.packed=true does not support"


def check_packed(plain: Mapping[str, Any], config: Mapping[str, Any], model: Seq2Seq) -> None:
    """Check that a run can train on packed tokens, if it should.

    Args:
        plain: functions that return the options of a node, such as `trainer`.
        config: argument of `build_model`.
        model: model that it describes, with shapes at least.

    Raises: ConfigError if it cannot, with everything that is in the way.
    """
    trainer, loss, guided = (plain[node]() for node in ("trainer", "loss", "guided"))
    if not trainer.packed:
        return
    found = {
        "trainer.precision": trainer.precision in (INT8_AWARE, "16-mixed") and trainer.precision,
        "loss.r_drop": loss.r_drop,
        "loss.simcut": loss.simcut,
        "guided.links": guided.links,
        "model.unpositioned": config["model"].get("unpositioned"),
    }
    wrong = [f"{option}={value}" for option, value in found.items() if value]
    if not isinstance(model, Transformer):
        wrong.append(f"model={config['model']['name']}")
    elif model.encoder_position.hook not in (None, "embed", "rotate"):
        wrong.append(f"position={config['position']['name']}")
    options = ((option_in_the_way(each), each.place.role) for each in model.attentions)
    wrong += [f"{option} in the {role.description}" for option, role in options if option]
    if wrong:
        names = ", ".join(dict.fromkeys(wrong))
        raise ConfigError(f"{REFUSAL} {names}: type trainer.packed=false")


def option_in_the_way(attention: Attention[Any]) -> str | None:
    """The option that keeps an attention from reading packed tokens; None if there is none."""
    if type(attention) is not MultiHead:
        return f"attention like {type(attention).__name__}"
    if not attention.score.is_dot or attention.score.biases_keys:
        return f"the score {type(attention.score).__name__}"
    if attention.kernel != "auto":
        return f"kernel={attention.kernel}"
    return f"dropout={attention.dropout}" if attention.dropout else None


def check_packed_device(devices: int, device: torch.device, precision: str) -> None:
    """Check that packed tokens can be trained on these devices, the first of which is `device`.

    Raises: ConfigError if there are several, or if it is a GPU on which their attention would hold
        the weights of all pairs of tokens.
    """
    wrong, on_gpu = "", device.type == "cuda"
    if devices > 1:
        wrong = f"{devices} devices: type trainer.devices=1 trainer.num_nodes=1"
    elif on_gpu and precision != "bf16-mixed":
        wrong = f"trainer.precision={precision} on a GPU: type trainer.precision=bf16-mixed"
    elif on_gpu and torch.__version__ < "2.11":
        wrong = f"a GPU with torch {torch.__version__}: install torch 2.11 or later"
    if wrong:
        raise ConfigError(f"{REFUSAL} {wrong}, or trainer.packed=false")
