"""A model that goes on with another vocabulary: which rows are kept, and what the others are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers.compared_runs import assert_identical
from helpers.tiny_runs import demo_lines, demo_run, train_tiny, weights

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.decoding.constraints.spelling import Spelling
from seq2seq.text.tokenization.registry import build_recipe
from seq2seq.text.tokenization.tokenizer import Tokenizer
from seq2seq.training.resume import find_sources

STILL = ("optimizer.lr=0", "trainer.max_steps=1")
NEW_SCRIPT = ["Собака бежит по улице.", "Две собаки играют на траве."] * 40


def learn(name: str, size: int, more: list[str]) -> Tokenizer:
    recipe = build_recipe({"name": name, "vocab_size": size, "joint": True, **OPTIONS[name]})
    return recipe.train(iter([*demo_lines("train", "en", 800), *more]), 0)


OPTIONS = {"bpe": {"dropout": 0.0}, "unigram": {}, "word": {}}


def brute_force(text: bytes, pieces: set[bytes]) -> int | None:
    """The least number of pieces that write a text, by trying all numbers in turn."""
    reached = {0}
    for count in range(1, len(text) + 1):
        reached = {
            end
            for start in reached
            for end in range(start + 1, len(text) + 1)
            if text[start:end] in pieces
        }
        if len(text) in reached:
            return count
    return None


@pytest.mark.parametrize("new_kind", ["bpe", "unigram"])
@pytest.mark.parametrize("old_kind", ["bpe", "unigram"])
def test_every_new_piece_is_spelled_by_the_fewest_old_ones(old_kind: str, new_kind: str) -> None:
    old, new = learn(old_kind, 400, []), learn(new_kind, 600, NEW_SCRIPT)
    of_old, of_new = Spelling(old), Spelling(new)
    pieces = {written for written in of_old.writes if written}
    spelled = 0
    for i, ids in enumerate(find_sources(old, new)):
        written = of_new.writes[i]
        if not written:  # control symbols keep their ids
            assert ids == [i]
            continue
        fewest = brute_force(written, pieces)
        assert len(ids) == (fewest or 0)
        assert b"".join(of_old.writes[i] for i in ids) == (written if fewest else b"")
        spelled += len(ids) > 1
    assert spelled


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word"])
def test_an_equal_vocabulary_keeps_every_row_in_its_place(kind: str) -> None:
    old = learn(kind, 400, [])
    assert find_sources(old, Tokenizer.from_json(old.to_json())) == [[i] for i in range(old.size)]


def test_tags_go_by_their_names_and_new_ones_begin_anew() -> None:
    plain = learn("bpe", 300, [])
    old, new = plain.with_tags(["web", "book"]), plain.with_tags(["book", "talk"])
    assert find_sources(old, new)[plain.size :] == [[old.tag_id("book")], []]


def test_a_run_with_the_same_pieces_begins_with_equal_bits(base: Path) -> None:
    before = demo_run(base) / "last.ckpt"
    folder = train_tiny(base, *STILL, f"init={before}", "init.vocabulary=mapped")
    assert_identical(weights(folder), checkpoint.read(before).weights)


def corpus_of_more(folder: Path) -> Path:
    """The training text of the tiny runs, and a language in another script."""
    for side in ("de", "en"):
        lines = demo_lines("train", side, 300) + (NEW_SCRIPT if side == "de" else ["Dogs."] * 80)
        (folder / f"more.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "more"


def names_of_rows(saved: checkpoint.Saved) -> Iterator[tuple[str, Tokenizer]]:
    yield "embeddings.source.weight", saved.source
    for name in ("target.weight", "output.weight", "output.bias"):
        yield f"embeddings.{name}", saved.target


def test_a_larger_vocabulary_begins_with_kept_rows_and_means(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = demo_run(base) / "last.ckpt"
    more = (f"data.train={corpus_of_more(tmp_path)}", "data.vocab_size=560")
    with pytest.raises(ConfigError, match=r"400 and 400 pieces, here 560 .*vocabulary=mapped"):
        train_tiny(base, *STILL, *more, f"init={before}")
    folder = train_tiny(base, *STILL, *more, f"init={before}", "init.vocabulary=mapped")
    assert "source vocabulary: 560 pieces, of which" in capsys.readouterr().out
    old, new = checkpoint.read(before), checkpoint.read(folder)
    kept = 0
    for name, tokenizer in names_of_rows(old):
        ids = {symbol: i for i, symbol in enumerate(tokenizer.symbols())}
        for row, symbol in enumerate(new.source.symbols()):
            if symbol in ids:
                assert torch.equal(new.weights[name][row], old.weights[name][ids[symbol]])
                kept += 1
        merged = next(
            i for i, sources in enumerate(find_sources(tokenizer, new.source)) if sources[1:]
        )
        mean = sum(old.weights[name][i] for i in find_sources(tokenizer, new.source)[merged])
        count = len(find_sources(tokenizer, new.source)[merged])
        torch.testing.assert_close(new.weights[name][merged], mean / count)
    assert kept > 1000
    others = {name for name in old.weights if not name.startswith("embeddings.")}
    assert_identical({n: new.weights[n] for n in others}, {n: old.weights[n] for n in others})


def test_a_smaller_vocabulary_serves_too(base: Path) -> None:
    folder = train_tiny(
        base, *STILL, "data.vocab_size=300", f"init={demo_run(base)}", "init.vocabulary=mapped"
    )
    assert checkpoint.read(folder).source.size == 300


def test_mapping_without_a_model_is_refused(base: Path) -> None:
    with pytest.raises(ConfigError, match="init.vocabulary=mapped needs a model .* init=PATH"):
        train_tiny(base, "init.vocabulary=mapped")
