"""Plug-ins are found by name, imported only when they are needed, and refused by name."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import commands
from helpers.builders import CONF, model_config
from helpers.plugin_packages import install
from helpers.tiny_runs import plan_of

from seq2seq.attention import ATTENTION
from seq2seq.base import plugins
from seq2seq.base.errors import CheckpointError, ConfigError
from seq2seq.base.plugins import check_presets, explain_missing, record_plugins
from seq2seq.checkpoint import Saved, check_mechanisms
from seq2seq.decoding import SEARCHES
from seq2seq.metrics.registry import METRICS, find_metrics
from seq2seq.models.layers.positions import POSITIONS
from seq2seq.text.tokenization.registry import TOKENIZERS
from seq2seq.training.config.explain import explain_config_error
from seq2seq.translation.translator import Translator

LEAKY = """
from seq2seq.attention.multihead import MultiHead
class Leaky(MultiHead):
    pass
"""
run = commands.run
TABLES: tuple[Any, ...] = (ATTENTION, SEARCHES, TOKENIZERS, POSITIONS, METRICS)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path to install plug-ins in; they are unloaded after the test."""
    folder, modules = tmp_path / "site", set(sys.modules)
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for table in TABLES:
        for name in set(table) - table.ours:
            del table[name]
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and str(folder) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def install_leaky(site: Path, name: str = "leaky", package: str = "leaky") -> None:
    install(site, package, {f"attention.{name}": f"{package}:Leaky"}, {"__init__.py": LEAKY})


def test_a_plug_in_is_imported_only_when_its_name_is_looked_up(site: Path) -> None:
    install_leaky(site)
    assert "leaky" in ATTENTION.list_names()
    assert plugins.preset_folders() == {}
    ATTENTION.find("multihead")
    with pytest.raises(ConfigError, match=r"did you mean 'leaky'\? Known: .*leaky"):
        ATTENTION.find("leeky")
    for module in ("leaky:Leaky", "leaky.Leaky", "os:system", "os"):
        with pytest.raises(ConfigError, match="unknown attention"):
            ATTENTION.find(module)
    assert "leaky" not in sys.modules
    assert ATTENTION.find("leaky").__module__ == "leaky"
    assert ATTENTION.find("leaky") is sys.modules["leaky"].__dict__["Leaky"]


def test_each_table_has_its_own_plug_ins(site: Path) -> None:
    install_leaky(site)
    for table in TABLES[1:4]:
        with pytest.raises(ConfigError, match=f"unknown {table.kind} 'leaky'"):
            table.find("leaky")


def test_built_in_names_do_not_search_for_plug_ins(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starting without plug-ins costs nothing extra."""
    monkeypatch.setattr(plugins, "find_entry_points", None)
    translator = Translator.load(run)
    assert translator.translate(["Ein Hund."], beam_size=2)
    for table in TABLES:
        for name in table.ours:
            table.find(name)


def test_a_name_that_two_plug_ins_declare_is_refused_naming_both(site: Path) -> None:
    install_leaky(site)
    install_leaky(site, package="leaking")
    with pytest.raises(ConfigError) as caught:
        ATTENTION.find("leaky")
    assert "leaky-plugin 0.1" in str(caught.value) and "leaking-plugin 0.1" in str(caught.value)
    assert not {"leaky", "leaking"} & set(sys.modules)


@pytest.mark.parametrize("kind", ["attention", "position", "search", "tokenizer"])
def test_training_refuses_a_plug_in_that_reuses_a_built_in_name(site: Path, kind: str) -> None:
    name = {"attention": "multihead", "search": "beam", "tokenizer": "bpe"}.get(kind, "sinusoidal")
    install(site, "leaky", {f"{kind}.{name}": "leaky:Leaky"})
    with pytest.raises(ConfigError) as caught:
        plan_of(Path("nowhere"), "run_name=x")
    assert f"{kind} {name!r}" in str(caught.value) and "leaky-plugin 0.1" in str(caught.value)
    assert "pip uninstall leaky-plugin" in str(caught.value)
    others = "attn=linear", "decode=greedy", "tokenizer=char", "position=none"
    assert plan_of(Path("nowhere"), "run_name=x", *others)


@pytest.mark.parametrize(
    "code", ["import no_such_module", "1 / 0", "raise SystemExit", "Leaky = 3", "x = 1"]
)
def test_a_broken_plug_in_is_named_and_does_not_affect_others(site: Path, code: str) -> None:
    install(site, "broken", {"attention.broken": "broken:Leaky"}, {"__init__.py": code})
    install_leaky(site)
    with pytest.raises(ConfigError, match=r"plug-in broken-plugin 0\.1, .*'broken'"):
        ATTENTION.find("broken")
    assert ATTENTION.find("leaky") and ATTENTION.find("linear")
    assert "broken" in ATTENTION.list_names()


def test_two_metrics_may_not_share_a_printed_name(site: Path) -> None:
    code = "from seq2seq.metrics.registry import METRICS\nM = METRICS['bleu']\n"
    install(site, "twin", {"metric.twin": "twin:M"}, {"__init__.py": code})
    assert [kind.label for kind in find_metrics(["chrf", "twin"])] == ["chrF", "BLEU"]
    with pytest.raises(ConfigError, match="are printed as BLEU"):
        find_metrics(["bleu", "twin"])
    with pytest.raises(ConfigError, match="there is no metric 'twyn'.*twin"):
        find_metrics(["twyn"])


def test_a_preset_of_two_packages_is_refused_when_it_is_chosen(site: Path) -> None:
    presets = {"__init__.py": LEAKY, "conf/attn/mha.yaml": "name: leaky"}
    install(site, "leaky", {"attention.leaky": "leaky:Leaky"}, presets)
    check_presets({"attn": "gqa", "attn@cross_attn": None}, CONF)
    for group in ("attn", "attn@encoder_attn"):
        with pytest.raises(ConfigError, match=r"conf/attn/mha\.yaml .*seq2seq.*leaky-plugin 0\.1"):
            check_presets({group: "mha"}, CONF)
    assert "leaky" not in sys.modules


def test_messages_list_the_presets_of_plug_ins(site: Path) -> None:
    presets = {"conf/attn/leaky.yaml": "name: leaky"}
    install(site, "leaky", {"attention.leaky": "leaky:Leaky"}, presets)
    error = Exception("Could not find 'attn/leeky'")
    message = explain_config_error(error, str(CONF), ["attn=leeky"])
    assert "did you mean 'leaky'" in message and "mha" in message


def saved(**changes: Any) -> Saved:
    """A checkpoint whose encoder has an attention of another name."""
    config = model_config("transformer")
    config["attention"]["encoder"]["name"] = "leaky"
    data = {"source": "de", "target": "en"}
    tokenizer: Any = None  # it is refused before
    return Saved({**config, "data": data, **changes}, tokenizer, tokenizer, {}, False)


def test_a_model_without_its_plug_in_is_refused_by_name(site: Path) -> None:
    install_leaky(site)
    record = record_plugins({"attention": {"leaky", "multihead"}, "search": {"beam"}})
    assert record == {"attention": {"leaky": "leaky-plugin 0.1"}}
    sys.path.remove(str(site))
    with pytest.raises(CheckpointError, match=r"'leaky', .*leaky-plugin 0\.1.*pip install leaky-"):
        saved(plugins=record).build()
    with pytest.raises(CheckpointError, match="'leaky', which is neither"):
        saved().build()


def test_a_model_without_the_plug_in_of_its_positions_is_refused_by_name(site: Path) -> None:
    code = "from seq2seq.models.layers.positions import Sinusoidal as Wave"
    install(site, "wavy", {"position.wave": "wavy:Wave"}, {"__init__.py": code})
    record = record_plugins({"position": {"wave", "rope"}})
    assert record == {"position": {"wave": "wavy-plugin 0.1"}}
    given = model_config("transformer")
    described = {"attention": given["attention"], "position": {"name": "wave"}, "plugins": record}
    check_mechanisms(described)
    del POSITIONS["wave"]
    sys.path.remove(str(site))
    with pytest.raises(CheckpointError, match=r"position 'wave', .*pip install wavy-plugin"):
        check_mechanisms(described)


def test_a_model_whose_plug_in_cannot_be_imported_is_not_called_damaged(site: Path) -> None:
    install(site, "leaky", {"attention.leaky": "leaky:Leaky"}, {"__init__.py": "1 / 0"})
    with pytest.raises(CheckpointError, match="leaky-plugin.*ZeroDivisionError") as caught:
        saved().build()
    assert "damaged" not in str(caught.value)


@pytest.mark.parametrize(
    "record",
    [
        None,
        7,
        {"attention": []},
        {"attention": {"leaky": 3}},
        *(
            {"attention": {"leaky": text}}
            for text in ("evil; rm -rf /", "--index-url 1.0", "a 1 b", "", "x\n 1", "a" * 999)
        ),
    ],
)
def test_nothing_but_a_name_and_a_version_is_repeated_from_a_file(record: Any) -> None:
    message = explain_missing("attention", "leaky", record)
    assert "neither" in message and "pip install the package" in message


def test_a_search_that_is_not_installed_is_refused_unless_another_is_chosen(run: Path) -> None:
    translator = Translator.load(run)
    record = {"search": {"fan": "toolbox 0.1"}}
    decode = {**translator.config["decode"], "name": "fan", "width": 2}
    translator.config = {**translator.config, "decode": decode, "plugins": record}
    with pytest.raises(ConfigError, match=r"'fan', .*toolbox 0\.1.*--beam-size"):
        translator.search(length_ratio=2.0)
    assert translator.search(beam_size=3).beams == 3
    assert translator.search("greedy").beams == 1
