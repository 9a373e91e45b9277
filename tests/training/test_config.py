"""The files of conf/ and the classes they are presets of."""

import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.builders import CONF, composed, presets, resolved
from helpers.train_options import checked_plan, complaint, values_of
from helpers.train_options import every_logger_is_installed as every_logger_is_installed
from omegaconf import OmegaConf

from seq2seq.attention import ATTENTION
from seq2seq.base.errors import Seq2SeqError
from seq2seq.base.registry import options_of
from seq2seq.data.options import DataOptions
from seq2seq.decoding import SEARCHES
from seq2seq.decoding.searches import ENGINE_OPTIONS
from seq2seq.models import FOR_ATTENTION, MODELS
from seq2seq.models.layers.embedding import Embeddings
from seq2seq.models.layers.positions import POSITIONS
from seq2seq.text.tokenization.registry import TOKENIZERS
from seq2seq.training.config.plan import NODES, PLAIN_NODES, REFERRED, check_config
from seq2seq.training.loggers import LOGGERS
from seq2seq.training.optimizer import SCHEDULES

GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir())
FILES = sorted(CONF.rglob("*.yaml"))
GIVEN = {  # what only the user knows
    "data=files": ("data.source=de", "data.target=en", "data.train=my/train", "data.valid=my/dev"),
    "data=languages": (*("data.languages=[de,en]", "data.train=my/train", "data.valid=my/dev"),),
    "experiment=zh_en": ("data.train=my/train", "data.valid=my/dev"),
    "tokenizer=checkpoint": (f"init.checkpoint={CONF}",),  # any path; it is not opened here
    **{
        f"tokenizer={name}": (f"tokenizer.path={__file__}",)
        for name in ("sentencepiece", "subword_nmt")
    },
}


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
    checked_plan(chosen, *GIVEN.get(chosen, ()))


@every_option("experiment", "trainer")
def test_every_recipe_leaves_the_precision_to_the_machine(chosen: str) -> None:
    assert checked_plan(chosen, *GIVEN.get(chosen, ())).trainer.precision == "auto"


@pytest.mark.parametrize("preset", ["gqa", "local_p"])
@pytest.mark.parametrize("model", ["transformer", "rnn"])
def test_a_preset_is_the_same_alone_and_among_all_others(model: str, preset: str) -> None:
    overrides = f"model={model}", f"attn={preset}"
    together = {node: value for node, value in composed(*overrides).items() if node != "presets"}
    assert together == resolved(*overrides)


@pytest.mark.slow
@every_option("attn")
def test_every_mechanism_can_be_typed_for_a_recurrent_model(chosen: str) -> None:
    checked_plan("model=rnn", chosen)


@pytest.mark.slow
@every_option("model")
@pytest.mark.parametrize("position", presets("position"))
def test_every_position_suits_a_model_or_is_refused_in_words(chosen: str, position: str) -> None:
    overrides = (chosen, f"position={position}")
    if chosen.startswith("model=rnn") and position != "none":
        assert "position=none" in complaint(*overrides)
    else:
        checked_plan(*overrides)


def assert_holds(node: dict[str, Any], options: Iterable[str], *others: str) -> None:
    assert sorted(node) == sorted({*options, *others})


@every_option("attn")
def test_a_preset_of_attn_holds_the_options_of_its_class(chosen: str) -> None:
    node = node_of(chosen)
    elsewhere = node.pop("elsewhere", None)
    for mechanism in (node, elsewhere) if elsewhere else (node,):
        assert_holds(mechanism, options_of(ATTENTION[mechanism["name"]]), "name")


@every_option("model")
def test_a_preset_of_model_holds_the_options_of_its_class_and_of_its_parts(chosen: str) -> None:
    node = node_of(chosen)
    model = MODELS[node["name"]]
    options = {
        option
        for owner in (model, Embeddings, *model.option_classes)
        for option in options_of(owner)
    }
    assert_holds(node, options, "name", *FOR_ATTENTION)


TABLES: dict[str, Any] = {
    "position": POSITIONS,
    "logger": LOGGERS,
    "tokenizer": TOKENIZERS,
    "schedule": SCHEDULES,
    "decode": SEARCHES,
}


@every_option(*TABLES)
def test_a_preset_holds_the_options_of_what_its_name_stands_for(chosen: str) -> None:
    node, group = node_of(chosen), chosen.split("=")[0]
    others = ("name", *ENGINE_OPTIONS) if group == "decode" else ("name",)
    if chosen == "tokenizer=checkpoint":  # which is no way to learn one
        assert_holds(node, (), "name")
    else:
        assert_holds(node, options_of(TABLES[group][node["name"]]), *others)


@every_option("optimizer", "trainer")
def test_a_preset_holds_the_fields_of_its_dataclass(chosen: str) -> None:
    options = PLAIN_NODES[chosen.split("=")[0]]
    assert_holds(node_of(chosen), options_of(options))


@every_option("data")
def test_a_preset_of_data_holds_what_is_read_and_what_is_referred_to(chosen: str) -> None:
    node = node_of(chosen)
    node.pop("root", None)  # a corpus in several files names their folder once
    assert_holds(node, (field.name for field in fields(DataOptions)), *set(REFERRED) - {"root"})


@pytest.mark.parametrize("node", sorted(PLAIN_NODES))
def test_a_node_of_train_yaml_holds_the_fields_of_its_dataclass(node: str) -> None:
    assert_holds(values_of()[node], options_of(PLAIN_NODES[node]))


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


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONF)))
def test_the_alternatives_in_a_comment_are_those_that_are_accepted(path: Path) -> None:
    """`score: scaled_dot  # scaled_dot | dot | additive` lists everything that may be typed."""
    group = path.parent.name
    chosen = f"{group}={path.stem}"
    for key, comment in re.findall(r"^(\w+): .*?# (.* \| .*)$", path.read_text(), re.M):
        alternatives = [re.split(r"[:; ]", part)[0] for part in comment.split(" | ")]
        values = values_of(chosen, *GIVEN.get(chosen, ()))
        for value in [*alternatives, "nonsense"]:
            typed = yaml.safe_load(value)
            try:
                check_config({**values, group: {**values[group], key: typed}}, Path("nowhere"))
                refused = False
            except Seq2SeqError as error:
                # Not every combination works; but only an unknown value is refused in quotation
                # marks.
                refused = f"'{value}'" in str(error)
            # A corpus may have files of any language.
            known = value != "nonsense" or key == "source"
            assert refused == (not known), f"{group}.{key}={value}"


def test_an_option_typed_for_one_role_is_laid_over_what_the_role_inherits() -> None:
    attention = checked_plan("attn=gqa", "+cross_attn.dropout=0.25").model["attention"]
    assert attention["cross"] == {**attention["encoder"], "dropout": 0.25}
    assert attention["decoder"] == attention["encoder"]


def test_a_mechanism_typed_for_one_role_stands_alone() -> None:
    chosen = "attn.dropout=0.5", "attn@cross_attn=fixed"
    attention = checked_plan(*chosen).model["attention"]
    assert attention["cross"]["name"] == "fixed"
    assert attention["encoder"]["dropout"] == 0.5
    assert "elsewhere" not in attention["cross"]


def test_a_corpus_suggests_the_length_of_training_and_the_vocabulary() -> None:
    plan = checked_plan("data=multi30k")
    data = OmegaConf.to_container(OmegaConf.load(CONF / "data" / "multi30k.yaml"))
    assert isinstance(data, dict)
    assert plan.trainer.max_steps == data["steps"]
    assert plan.tokenizer["vocab_size"] == data["vocab_size"]
