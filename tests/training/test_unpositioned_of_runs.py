"""Tokens outside the order from the option of a run to what translates with it."""

from itertools import permutations, product
from pathlib import Path

import pytest
import torch
from helpers.tiny_runs import train_tiny

from seq2seq import Translator, checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.data.corpus.groups import mark_unpositioned

STEMS = ["".join(stem) for stem in product("kpt", "ae", "lr")]
ENDINGS = {"SG;NOM": "", "SG;GEN": "n", "PL;NOM": "t", "PL;GEN": "in"}
OUTSIDE = "model.unpositioned='<*>'"


def options(folder: Path) -> list[str]:
    pairs = [
        (" ".join(f"<{name}>" for name in names.split(";")) + f" {' '.join(stem)}", stem + ending)
        for stem, (names, ending) in product(STEMS, ENDINGS.items())
    ]
    for part in ("train", "valid"):
        for suffix, texts in (
            ("lemma", [source for source, _ in pairs]),
            ("form", [" ".join(form) for _, form in pairs]),
        ):
            text = "".join(f"{line}\n" for line in texts)
            (folder / f"{part}.{suffix}").write_text(text, encoding="utf-8")
    return [
        *("data.source=lemma", "data.target=form", "tokenizer=word", "position=rope"),
        *(f"data.{part}={folder / part}" for part in ("train", "valid")),
        *("trainer.max_steps=4", "trainer.val_check_interval=4"),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inflection")


@pytest.fixture(scope="module")
def run(base: Path, folder: Path) -> Path:
    return train_tiny(base, *options(folder), OUTSIDE)


def test_a_checkpoint_finds_its_features_again(run: Path) -> None:
    saved = checkpoint.read(run)
    marks, expected = saved.build().unpositioned, mark_unpositioned(saved.source, "<*>")
    assert marks is not None and expected is not None and torch.equal(marks, expected)
    assert not any("unpositioned" in name for name in saved.weights)
    del saved.config["model"]["unpositioned"]  # as older ones
    assert saved.build().unpositioned is None


def test_a_translator_does_not_see_the_order_of_features(run: Path) -> None:
    translator = Translator.load(run, device="cpu")
    sources = [" ".join([*order, "k", "a", "l"]) for order in permutations(("<PL>", "<GEN>"))]
    scores = [
        each.log_probability for each in translator.score(sources, ["k a l i n"] * len(sources))
    ]
    assert scores == pytest.approx([scores[0]] * len(scores), abs=1e-4)
    assert len(set(translator.translate(sources))) == 1
    (moved,) = translator.score(["k <GEN> a l <PL>"], ["k a l i n"])
    assert moved.log_probability == pytest.approx(scores[0], abs=1e-4)


def test_without_the_option_it_is_another_model(base: Path, folder: Path, run: Path) -> None:
    words = "model.unpositioned was '<\\*>' and is None now"
    with pytest.raises(ConfigError, match=words):
        train_tiny(base, *options(folder), f"resume={run / 'last.ckpt'}")
