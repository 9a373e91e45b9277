"""Groups of tokens from the options of a run to the attention that reads them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.tiny_runs import demo_lines, train_tiny
from torch import Tensor

from seq2seq import Translator, checkpoint
from seq2seq.attention.base import Encoded
from seq2seq.attention.context import HierarchicalContext
from seq2seq.base.errors import CheckpointError, ConfigError
from seq2seq.base.symbols import EOS
from seq2seq.checkpoint.average import average
from seq2seq.data.batches.padding import pad_rows
from seq2seq.data.corpus.groups import group_marks
from seq2seq.functional.context import token_groups
from seq2seq.text.tokenization.tokenizer import Tokenizer

GROUPED = ("attn=hierarchical_context", "data.groups=sentences", "data.sentence_separator=.")
QUICK = ("trainer.max_steps=4", "trainer.val_check_interval=4")


@pytest.fixture(scope="module")
def run(base: Path) -> Path:
    return train_tiny(base, *GROUPED, *QUICK)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The role, the mask and the groups of every memory of a whole sequence."""
    calls: list[Any] = []
    original = HierarchicalContext.memory_of

    def memory_of(self: Any, encoded: Encoded) -> Any:
        calls.append((self.place.role.value, encoded.mask, encoded.groups))
        return original(self, encoded)

    monkeypatch.setattr(HierarchicalContext, "memory_of", memory_of)
    return calls


def expected(tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    """The groups of a batch of texts, from the tokenizer alone."""
    marks = group_marks(tokenizer, "sentences", ".")
    assert marks is not None
    rows = [[*ids, EOS] for ids in tokenizer.encode_batch(texts)]
    return token_groups(pad_rows(rows), marks)


TEXT = "Drei Wochen denkt das Kind. Der Hund schläft."


def test_translation_scores_and_maps_are_told_the_same_groups(run: Path, seen: list[Any]) -> None:
    translator = Translator.load(run, device="cpu")
    groups = expected(translator.source, [TEXT])
    assert groups[0, -1, 1] == 1  # two sentences, the end in the second
    for request in (
        lambda: translator.translate([TEXT]),
        lambda: list(translator.score([TEXT], ["A dog."])),
        lambda: translator.align(TEXT, "A dog."),
    ):
        seen.clear()
        request()
        roles = {role for role, _, _ in seen}
        assert {"encoder", "cross"} <= roles
        for role, _, told in seen:
            if role == "decoder":
                assert told is None
            else:
                assert torch.equal(told, groups)


def test_training_and_validation_are_told_groups(base: Path, seen: list[Any]) -> None:
    train_tiny(base, *GROUPED, *QUICK, "validation.sentences=null")
    batches = [(mask, groups) for role, mask, groups in seen if role != "decoder"]
    assert len(batches) > 8
    for mask, groups in batches:
        assert groups.shape == (*mask.shape, 2)
        # Every row of real text has several words, and group indices only ascend.
        assert (groups.diff(dim=1) >= 0).all() and groups[:, :, 0].max() > 1


def test_a_checkpoint_finds_its_groups_again(run: Path) -> None:
    saved = checkpoint.read(run)
    assert saved.config["data"]["groups"] == "sentences"
    assert not any("group" in name for name in saved.weights)
    model = saved.build()
    rows = pad_rows(
        [[*ids, EOS] for ids in saved.source.encode_batch(demo_lines("valid", "de", 5))]
    )
    groups = model.encode(rows).groups
    assert groups is not None
    assert torch.equal(groups, expected(saved.source, demo_lines("valid", "de", 5)))


def test_groups_change_what_a_trained_model_computes(run: Path) -> None:
    saved = checkpoint.read(run)
    told, untold = saved.build(), saved.build()
    untold.group_marks = None
    rows = pad_rows([[*ids, EOS] for ids in saved.source.encode_batch([TEXT])])
    assert untold.encode(rows).groups is None
    assert not torch.equal(told.encode(rows).states, untold.encode(rows).states)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("data.sentence_separator=e", "data.sentence_separator was '.' and is 'e' now"),
        ("data.groups=words", "data.groups was 'sentences' and is 'words' now"),
    ],
)
def test_other_groups_are_another_model(base: Path, run: Path, changed: str, words: str) -> None:
    separator = ["data.sentence_separator=null"] if changed == "data.groups=words" else []
    with pytest.raises(ConfigError, match=words):
        train_tiny(
            base,
            *(*GROUPED, *QUICK, changed, *separator, f"resume={run / 'last.ckpt'}"),
        )


def test_models_of_other_groups_have_no_average(run: Path, tmp_path: Path) -> None:
    content = torch.load(run / "last.ckpt", weights_only=True)
    content[checkpoint.ENTRY]["config"]["data"]["groups"] = "words"
    torch.save(content, tmp_path / "other.ckpt")
    with pytest.raises(CheckpointError, match="data.groups was 'sentences' and is 'words' now"):
        average([run / "last.ckpt", tmp_path / "other.ckpt"], tmp_path / "mean.ckpt")


def test_a_checkpoint_without_the_option_has_no_groups(run: Path) -> None:
    saved = checkpoint.read(run)
    for option in ("groups", "sentence_separator"):
        del saved.config["data"][option]
    assert saved.build().group_marks is None
