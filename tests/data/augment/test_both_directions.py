"""Each pair in both directions: training data, validation data, and refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.small_corpora import ENGLISH, GERMAN
from helpers.tiny_runs import corpus, tiny_overrides, train_again, train_tiny, weights

from seq2seq.base.errors import ConfigError
from seq2seq.data.options import DataOptions
from seq2seq.data.prepare import Prepared, prepare
from seq2seq.translation.translator import Translator

PARTS = "train", "valid"
BPE = {"name": "bpe", "vocab_size": 300, "joint": True, "normalize": None, "max_token_length": 16}
Write = Callable[..., tuple[Path, Path]]


def prepared(tmp_path: Path, tokenizer: Any = BPE, **changes: Any) -> Prepared:
    parts = {part: str(tmp_path / part) for part in PARTS}
    fields = {"name": "files", "source": "de", "target": "en", "cache": str(tmp_path / "cache")}
    return prepare(
        DataOptions(**{**fields, **parts, "both_directions": True, **changes}), tokenizer
    )


def texts(data: Prepared, part: str) -> list[tuple[str, str, str]]:
    """The tag, the source and the target of each row."""
    of_part, (source, target) = getattr(data, part), data.tokenizers
    tags = {source.tag_id(name): name for name in ("de", "en")}
    rows = [(of_part.source(i).tolist(), of_part.target(i).tolist()) for i in range(len(of_part))]
    return [
        (tags[ids[0]], source.decode_batch([ids[1:]])[0], target.decode_batch([other])[0])
        for ids, other in rows
    ]


def test_each_pair_is_trained_on_both_ways_with_the_tag_of_its_target(
    parallel: Write, tmp_path: Path
) -> None:
    parallel("train")
    parallel("valid", ["der hund lacht"], ["the dog laughs"])
    data = prepared(tmp_path)
    forward = [("en", de, en) for de, en in zip(GERMAN, ENGLISH, strict=True)]
    backward = [("de", en, de) for de, en in zip(GERMAN, ENGLISH, strict=True)]
    assert texts(data, "train") == forward + backward
    # Validation is in the direction that the run is for.
    assert texts(data, "valid") == [("en", "der hund lacht", "the dog laughs")]
    one_way = prepared(tmp_path, both_directions=False)
    assert data.tokenizers.source.size == one_way.tokenizers.source.size + 2  # the tags alone
    assert [c["name"] for c in data.ledger["parts"]["train"]["corpora"]] == ["de-en", "en-de"]


def test_files_lists_tables_and_weights_are_reversed(parallel: Write, tmp_path: Path) -> None:
    de, en = parallel("train")
    parallel("valid", ["der hund lacht"], ["the dog laughs"])
    table = tmp_path / "table.tsv"
    table.write_text("de\ten\nein hund\ta dog\n", encoding="utf-8")
    spec = {"list": {"path": [str(de), str(en)]}, "table": {"path": str(table), "weight": 2.5}}
    data = prepared(tmp_path, train=spec)
    rows = texts(data, "train")
    assert ("en", "ein hund", "a dog") in rows and ("de", "a dog", "ein hund") in rows
    assert ("de", ENGLISH[0], GERMAN[0]) in rows and len(rows) == 2 * (len(GERMAN) + 1)
    assert [share.weight for share in data.train.shares] == [1, 2.5, 1, 2.5]


def test_two_vocabularies_and_other_tags_are_refused(parallel: Write, tmp_path: Path) -> None:
    parallel("train")
    parallel("valid")
    with pytest.raises(ConfigError, match=r"data.both_directions=true .* tokenizer.joint=true"):
        prepared(tmp_path, {**BPE, "joint": False})
    with pytest.raises(ConfigError, match=r"Leave data.train.a.tag out"):
        prepared(tmp_path, train={"a": {"path": "x", "tag": "y"}})
    with pytest.raises(ConfigError, match=r"'der Satz' is not a word of letters"):
        prepared(tmp_path, source="der Satz")
    with pytest.raises(ConfigError, match=r"needs two different languages: de, de"):
        prepared(tmp_path, source="de", target="de")


def test_a_run_in_both_directions_translates_either_way_and_is_not_resumed_in_one(
    base: Path,
) -> None:
    both = "data.both_directions=true"
    run = train_tiny(base, both, "trainer.max_steps=2", "schedule.steps=2")
    default, there, back = (Translator.load(run, "cpu", tag) for tag in (None, "en", "de"))
    tags = [each.directions.find().before for each in (default, there, back)]
    assert tags[0] == tags[1] != tags[2]
    text = (corpus(base) / "valid.de").read_text(encoding="utf-8").splitlines()[:1]
    assert default.translate(text) == there.translate(text)
    resume = f"resume={run / 'last.ckpt'}"
    with pytest.raises(ConfigError, match=r"data.both_directions was True and is False now"):
        train_again(run, *tiny_overrides(base), resume)
    # Bi-SimCut: on in one direction, with the same tokenizers and tag.
    folder = corpus(base)
    parts = (f"data.{part}={{pairs: {{path: {folder / part}, tag: en}}}}" for part in PARTS)
    more = ("loss.simcut=3", f"init={run}", "tokenizer=checkpoint", "trainer.max_steps=1", *parts)
    tuned = train_tiny(base, *more)
    assert weights(tuned).keys() == weights(run).keys()
