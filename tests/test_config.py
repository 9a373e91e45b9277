"""The files of conf/ and the classes they are presets of; what a mistyped command line answers."""

import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from helpers import CONF, presets
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from seq2seq.attention import ATTENTION
from seq2seq.data.prepare import DataOptions
from seq2seq.data.recipes import TOKENIZERS
from seq2seq.decoding import SEARCHES
from seq2seq.errors import Seq2SeqError
from seq2seq.models import FOR_ATTENTION, MODELS
from seq2seq.nn.embedding import Embeddings
from seq2seq.nn.positions import POSITIONS
from seq2seq.tables import options_of
from seq2seq.training.explain import explain
from seq2seq.training.fit import plain_values
from seq2seq.training.logger_options import LOGGERS
from seq2seq.training.options import (
    CheckpointOptions,
    LossOptions,
    OptimizerOptions,
    TrainerOptions,
    ValidationOptions,
)
from seq2seq.training.plan import NODES, REFERRED, Plan, check
from seq2seq.training.schedule import SCHEDULES

GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir())
FILES = sorted(CONF.rglob("*.yaml"))
GIVEN = {  # what only the user knows
    "data=files": ("data.source=de", "data.target=en", "data.train=my/train", "data.valid=my/dev"),
    "tokenizer=checkpoint": (f"init={CONF}",),  # any path; it is not read yet
}


@cache
def values_of(*overrides: str) -> dict[str, Any]:
    """The plain configuration of a command line, or what Hydra raises about it. Read only."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return plain_values(compose("train", overrides=["run_name=test", *overrides]))


def plan_of(*overrides: str) -> Plan:
    return check(values_of(*overrides), Path("nowhere"))


def complaint(*overrides: str) -> str:
    """What `python train.py OVERRIDES` prints."""
    try:
        plan_of(*overrides)
    except Seq2SeqError as error:
        return str(error)
    except (HydraException, OmegaConfBaseException) as error:
        return explain(error, str(CONF), list(overrides))
    pytest.fail(f"nothing is wrong with {overrides}")


def every_option(*groups: str) -> pytest.MarkDecorator:
    """Run a test for every file of these groups."""
    return pytest.mark.parametrize(
        "chosen", [f"{group}={name}" for group in groups for name in presets(group)]
    )


def node_of(chosen: str) -> dict[str, Any]:
    group = chosen.split("=")[0]
    return dict(values_of(chosen, *GIVEN.get(chosen, ()))[group])


@every_option(*GROUPS)
def test_every_file_is_an_option_that_can_be_trained_with(chosen: str) -> None:
    plan_of(chosen, *GIVEN.get(chosen, ()))


@every_option("attn")
def test_every_mechanism_can_be_typed_for_a_recurrent_model(chosen: str) -> None:
    plan_of("model=rnn", chosen)
    plan_of("model=rnn_luong", chosen)


@every_option("model")
@pytest.mark.parametrize("position", presets("position"))
def test_every_position_suits_a_model_or_is_refused_in_words(chosen: str, position: str) -> None:
    overrides = (chosen, f"position={position}")
    if chosen.startswith("model=rnn") and position != "none":
        assert "position=none" in complaint(*overrides)
    else:
        plan_of(*overrides)


def assert_holds(node: dict[str, Any], options: Iterable[str], *others: str) -> None:
    assert sorted(node) == sorted({*options, *others})


@every_option("attn")
def test_a_preset_of_attn_holds_the_options_of_its_class(chosen: str) -> None:
    node = node_of(chosen)
    elsewhere = node.pop("elsewhere", None)
    for mechanism in (node, elsewhere) if elsewhere else (node,):
        assert_holds(mechanism, options_of(ATTENTION[mechanism["name"]]), "name")


@every_option("model")
def test_a_preset_of_model_holds_the_options_of_its_class_and_of_the_embeddings(
    chosen: str,
) -> None:
    node = node_of(chosen)
    options = {**options_of(MODELS[node["name"]]), **options_of(Embeddings)}
    assert_holds(node, options, "name", *FOR_ATTENTION)


@pytest.fixture(autouse=True)
def every_logger_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2seq.training.logger_options.is_installed", lambda package: True)


TABLES: dict[str, Any] = {
    "position": POSITIONS,
    "logger": LOGGERS,
    "tokenizer": TOKENIZERS,
    "schedule": SCHEDULES,
    "decode": SEARCHES,
}


@every_option(*TABLES)
def test_a_preset_holds_the_options_of_what_its_name_stands_for(chosen: str) -> None:
    node = node_of(chosen)
    if chosen == "tokenizer=checkpoint":  # which is no way to learn one
        assert_holds(node, (), "name")
    else:
        assert_holds(node, options_of(TABLES[chosen.split("=")[0]][node["name"]]), "name")


DATACLASSES: dict[str, Any] = {"optimizer": OptimizerOptions, "trainer": TrainerOptions}


@every_option(*DATACLASSES)
def test_a_preset_holds_the_fields_of_its_dataclass(chosen: str) -> None:
    options = DATACLASSES[chosen.split("=")[0]]
    assert_holds(node_of(chosen), (field.name for field in fields(options)))


@every_option("data")
def test_a_preset_of_data_holds_what_is_read_and_what_is_referred_to(chosen: str) -> None:
    node = node_of(chosen)
    node.pop("root", None)  # a corpus in several files names their folder once
    assert_holds(node, (field.name for field in fields(DataOptions)), *set(REFERRED) - {"root"})


@pytest.mark.parametrize(
    ("node", "options"),
    [
        ("loss", LossOptions),
        ("validation", ValidationOptions),
        ("checkpoint", CheckpointOptions),
    ],
)
def test_a_node_of_train_yaml_holds_the_fields_of_its_dataclass(node: str, options: Any) -> None:
    assert_holds(values_of()[node], (field.name for field in fields(options)))


def test_all_nodes_of_the_configuration_are_known_to_the_check() -> None:
    assert sorted(values_of()) == sorted(NODES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONF)))
def test_every_file_begins_with_a_comment_that_says_what_it_is(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    header = [line for line in lines[:2] if not line.startswith("# @package")]
    assert re.match(r"# \w", header[0])


@pytest.mark.parametrize("name", presets("attn"))
def test_every_option_of_a_mechanism_has_a_comment(name: str) -> None:
    lines = (CONF / "attn" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    options = [line for line in lines if re.match(r"\w", line)]
    plain = [line for line in options if "  # " not in line]
    assert {line.split(":")[0] for line in plain} <= {"name", "defaults"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONF)))
def test_the_alternatives_in_a_comment_are_those_that_are_accepted(path: Path) -> None:
    """`score: scaled_dot  # scaled_dot | dot | additive` lists everything that may be typed."""
    group = path.parent.name
    chosen = f"{group}={path.stem}"
    for key, comment in re.findall(r"^(\w+): .*?# (.* \| .*)$", path.read_text(), re.M):
        alternatives = [re.split(r"[:; ]", part)[0] for part in comment.split(" | ")]
        for value in [*alternatives, "nonsense"]:
            try:
                plan_of(chosen, *GIVEN.get(chosen, ()), f"{group}.{key}={value}")
                refused = False
            except Seq2SeqError as error:
                # Not every combination works; but of a value that is known, no error says that it
                # is not, which is the only one to put it in quotation marks.
                refused = f"'{value}'" in str(error)
            # A corpus may have files of any language.
            known = value != "nonsense" or key == "source"
            assert refused == (not known), f"{group}.{key}={value}"


# What is typed, and what has to stand in the answer.
MISTAKES = [
    ("attn.num_kv_head=4", "unknown option attn.num_kv_head; did you mean 'attn.num_kv_heads'?"),
    (
        "attn=linear attn.dropout=0.1",
        "attn.dropout means nothing here: there are no weights",
    ),
    ("attn=performer +attn.dropout=0.1", "attn.dropout=0.1 means nothing here: there are no"),
    ("attn=linear +cross_attn.dropout=0.1", "dropout=0.1 means nothing here: there are no weights"),
    ("attn.dropot=0.1", "unknown option attn.dropot; did you mean 'attn.dropout'?"),
    ("attn=mla position=rope +cross_attn.rope_dim=4", "cross_attn.rope_dim=4: source and target"),
    ("atn=gqa", "unknown option atn; did you mean 'attn'?"),
    ("attn=gqaa", "unknown attn 'gqaa'; did you mean 'gqa'? Known: additive, "),
    ("model=transfomer", "unknown model 'transfomer'; did you mean 'transformer'?"),
    ("+attn.heads=4", "unknown option attn.heads; did you mean 'num_heads'?"),
    ("+cros_attn.dropout=0", "unknown option cros_attn; did you mean 'cross_attn'?"),
    ("cross_attn.dropout=0", "+cross_attn.dropout="),
    ("model.dim=wide", "model.dim='wide' should be a whole number"),
    ("model.dim=1.5", "model.dim=1.5 should be a whole number"),
    ("model.scale=1", "model.scale=1 should be true or false"),
    ("model.norm=batchnorm", "should be one of 'layernorm', 'rmsnorm'"),
    ("model.dropout=1.5", "dropout=1.5 should be in [0, 1)"),
    ("model.dim=0", "model.dim=0 should be at least 1"),
    ("loss.label_smoothing=1", "loss.label_smoothing=1 should be in [0, 1)"),
    ("seed=-1", "seed=-1 should be in [0, "),
    ("seed=99999999999", "seed=99999999999 should be in [0, "),
    ("optimizer.lr=nan", "optimizer.lr=nan should be at least 0"),
    ("optimizer.betas=[0.9,1]", "optimizer.betas[1]=1 should be in [0, 1)"),
    ("optimizer.betas=[0.9]", "should be a list of"),
    ("schedule.warmup=-1", "schedule.warmup=-1 should be at least 0"),
    ("trainer.gradient_clip_val=-1", "trainer.gradient_clip_val=-1 should be at least 0"),
    ("trainer.accelerator=gpus", "should be one of 'auto', 'cpu', 'gpu'"),
    ("trainer.precision=8", "should be one of '32-true', 'bf16-mixed', '16-mixed'"),
    ("trainer.max_time=1h", "trainer.max_time=1h should be days:hours:minutes:seconds"),
    ("trainer.val_check_interval=0", "trainer.val_check_interval=0 should be at least 1"),
    ("trainer.max_steps=-1", "a cosine needs an end"),
    ("trainer.max_steps=-1 schedule=constant", "nothing ends this training"),
    ("decode.beam_size=0", "decode.beam_size=0 should be at least 1"),
    ("tokenizer.vocab_size=100", "tokenizer.vocab_size=100 is too small"),
    ("data.groups=words", "data.groups=words changes nothing here: no attention to the source"),
    (
        "data.groups=words attn@decoder_attn=hierarchical_context",
        "python train.py attn=hierarchical_context data.groups=words",
    ),
    ("data.groups=sentences attn=hierarchical_context", "needs to know what ends one"),
    ("data.sentence_separator=.", "data.sentence_separator='.' means nothing with"),
    ("data.max_tokens=10", "data.max_tokens=10 is less than data.max_length=256"),
    ("model.num_heads=3", "num_heads=3 does not divide dim=128"),
    ("attn.num_kv_heads=3", "num_kv_heads=3 does not divide num_heads=4"),
    ("position=rope attn=additive", "position=sinusoidal"),
    ("model=rnn attn@encoder_attn=mha", "this model has no encoder self-attention"),
    ("model=rnn model.dim=33", "model.dim=33 must be even"),
    ("attn@encoder_attn=fixed", "fixed is not defined for encoder self-attention"),
    ("tokenizer.joint=false", "tokenizer.joint=true, or model.tie=target"),
    ("data=files", "data.source, data.target, data.train, data.valid must be given"),
    ("resume=nothing.ckpt", "resume=nothing.ckpt: there is no such file"),
    ("~seed", "seed is missing"),
    ("~decode", "decode is missing"),
    ("loss=5", "loss=5 should hold options"),
    ("~model.dim", "model.dim is missing: a whole number"),
    ("~attn.name", "attn has no name"),
    ("model.name=gru", "unknown model 'gru'. Known: rnn, rnn_luong, transformer"),
    ("position=learned position.length=100", "Type data.max_length=100"),
    ("position=learned position.length=0", "position.length=0 should be at least 1"),
    ("attn=linformer attn.length=100", "Type data.max_length=100, or leave attn.length out"),
    (
        "attn@cross_attn=linformer cross_attn.length=8 cross_attn.rank=4",
        "in the cross-attention is",
    ),
    ("attn=linformer attn.rank=300", "attn.rank=300 is more than attn.length=256"),
    ("attn=linformer attn.rank=0", "attn.rank=0 should be at least 1"),
    ("attn=linformer position=rope", "Take position=sinusoidal"),
    ("model=rnn_luong attn=local_p attn.radius=0", "attn.radius=0 should be at least 1"),
    ("attn@encoder_attn=local_m", "it asks where in another sentence a word comes from"),
    ("attn@decoder_attn=linformer", "each compressed key mixes all positions, future ones incl"),
    ("position=t5 position.num_heads=2", "has num_heads=4. Take position.num_heads=4"),
    ("position=t5 position.num_buckets=7", "position.num_buckets=7 should be even"),
    ("position=t5 position.max_distance=8", "position.max_distance=8 should be at least 32"),
    ("position=rope attn=concat_linear", "Take position=sinusoidal"),
    ("attn=concat attn.kernel=fused", "Take kernel=auto"),
    ("model.dim=[1", "key=value"),
]


@pytest.mark.parametrize(("typed", "words"), MISTAKES, ids=[typed for typed, _ in MISTAKES])
def test_a_mistake_is_answered_in_words(typed: str, words: str) -> None:
    assert words in complaint(*typed.split())


def test_several_mistakes_are_answered_at_once() -> None:
    found = complaint("model.dim=x", "decode.beam_size=0", "optimizer.lr=-1", "schedule.warmup=y")
    for option in ("model.dim=", "decode.beam_size=", "optimizer.lr=", "schedule.warmup="):
        assert option in found


def test_the_mistakes_of_all_roles_are_answered_at_once() -> None:
    roles = ("encoder_attn=local_p", "decoder_attn=efficient", "cross_attn=reformer")
    found = complaint(*(f"attn@{role}" for role in roles))
    for name in ("local_p", "efficient", "reformer"):
        assert f"{name} is not defined for" in found


def test_an_option_typed_for_one_role_is_laid_over_what_the_role_inherits() -> None:
    attention = plan_of("attn=gqa", "+cross_attn.dropout=0.25").model["attention"]
    assert attention["cross"] == {**attention["encoder"], "dropout": 0.25}
    assert attention["decoder"] == attention["encoder"]


def test_a_mechanism_typed_for_one_role_stands_alone() -> None:
    chosen = "attn.dropout=0.5", "attn@cross_attn=fixed"
    attention = plan_of(*chosen).model["attention"]
    assert attention["cross"]["name"] == "fixed"
    assert attention["encoder"]["dropout"] == 0.5
    assert "elsewhere" not in attention["cross"]


def test_a_corpus_suggests_the_length_of_training_and_the_vocabulary() -> None:
    plan = plan_of("data=multi30k")
    data = OmegaConf.to_container(OmegaConf.load(CONF / "data" / "multi30k.yaml"))
    assert isinstance(data, dict)
    assert plan.trainer.max_steps == data["steps"]
    assert plan.tokenizer["vocab_size"] == data["vocab_size"]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=CONF.parent, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("attn.num_kv_head=4", "did you mean 'attn.num_kv_heads'?"),
        ("logger=null", "logger=none"),
        ("hydra.run.dir=/dev/null/run", "/dev/null/run"),
    ],
)
def test_the_command_line_ends_in_one_message(typed: str, words: str) -> None:
    ended = python("train.py", typed)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ") and words in ended.stderr
    assert "Traceback" not in ended.stderr and not ended.stdout


def test_a_misspelt_option_is_found_without_importing_torch_or_lightning() -> None:
    heavy = "{'torch', 'lightning'} & set(sys.modules)"
    script = f"import sys, seq2seq.training.launch; print({heavy} or 'none')"
    assert python("-c", script).stdout == "none\n"
