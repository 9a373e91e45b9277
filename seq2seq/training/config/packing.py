"""What training on packed tokens cannot do, found before any file is read."""

from collections.abc import Iterator, Mapping
from typing import Any

from seq2seq.attention import Attention
from seq2seq.attention.multihead import MultiHead
from seq2seq.base.errors import ConfigError
from seq2seq.data.options import DataOptions
from seq2seq.models import Seq2Seq
from seq2seq.models.transformer import Transformer
from seq2seq.training.config.options import GuidedOptions, LossOptions, TrainerOptions

PRECISIONS = ("auto", "32-true", "bf16-mixed")
HOOKS = (None, "embed", "rotate")


def check_packed(
    trainer: TrainerOptions,
    loss: LossOptions,
    guided: GuidedOptions,
    data: DataOptions,
    config: Mapping[str, Any],
    model: Seq2Seq,
) -> None:
    """Check that a run can train on packed tokens, if it should.

    Args:
        config: argument of `build_model`.
        model: model that it describes, with shapes at least.

    Raises: ConfigError if it cannot, with everything that is in the way.
    """
    if not trainer.packed:
        return
    found = {
        f"trainer.precision={trainer.precision}": trainer.precision not in PRECISIONS,
        f"loss.r_drop={loss.r_drop}": loss.r_drop,
        f"loss.simcut={loss.simcut}": loss.simcut,
        f"guided.links={guided.links}": guided.links is not None,
        f"data.groups={data.groups}": data.groups != "none",
        f"model.unpositioned={config['model'].get('unpositioned')!r}": config["model"].get(
            "unpositioned"
        ),
    }
    wrong = [typed for typed, unsuitable in found.items() if unsuitable]
    wrong += describe_model_in_the_way(config, model)
    if wrong:
        raise ConfigError(
            f"trainer.packed=true does not support {', '.join(dict.fromkeys(wrong))}: "
            "type trainer.packed=false"
        )


def describe_model_in_the_way(config: Mapping[str, Any], model: Seq2Seq) -> Iterator[str]:
    """The parts of a model that cannot read packed tokens."""
    if not isinstance(model, Transformer):
        yield f"model={config['model']['name']}"
        return
    if model.encoder_position.hook not in HOOKS:
        yield f"position={config['position']['name']}"
    for attention in model.attentions:
        role = attention.place.role
        name = config["attention"][role.value]["name"]
        if option := option_in_the_way(attention, name):
            yield f"{option} in the {role.description}"


def option_in_the_way(attention: Attention[Any], name: str) -> str | None:
    """The option for which an attention cannot read packed tokens, if there is one."""
    if type(attention) is not MultiHead:
        return f"attention like {name}"
    score = type(attention.score).__name__
    if not attention.score.is_dot or attention.score.biases_keys:
        return f"the score {score}"
    if attention.kernel != "auto":
        return f"kernel={attention.kernel}"
    return f"dropout={attention.dropout}" if attention.dropout else None
