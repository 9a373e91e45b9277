"""Sources that begin with the sentences before them in their document."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers.tiny_runs import demo_lines, plan_of, prepared_for, tiny_overrides, train_tiny

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS
from seq2seq.data.batches.batch import make_batch
from seq2seq.data.corpus.context import ContextArray, count_preceding
from seq2seq.data.corpus.corpus import Corpus
from seq2seq.data.prepare import Prepared
from seq2seq.decoding.constraints.lexical import Vocabulary
from seq2seq.text.tokenization.directions import Directions
from seq2seq.text.tokenization.tokenizer import SEPARATOR, Tokenizer
from seq2seq.training.build import describe_run
from seq2seq.translation.codec import TextCodec
from seq2seq.translation.documents import request_lines
from seq2seq.translation.translator import Translator

LONG = " ".join(["Haus"] * 200)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Documents of 4, 1 and 5 sentences, one of which is too long to train on."""
    sides = (demo_lines("train", side, 10) for side in ("de", "en"))
    for suffix, lines in zip(("de", "en"), sides, strict=True):
        lines[7] = LONG
        documents = lines[:4], lines[4:5], lines[5:]
        text = "\n\n".join("\n".join(document) for document in documents)
        (tmp_path / f"documents.{suffix}").write_text(f"{text}\n", encoding="utf-8")
    return tmp_path / "documents"


def prepared(base: Path, prefix: Path, *typed: str) -> Prepared:
    return prepared_for(plan_of(base, *tiny_overrides(base), f"data.train={prefix}", *typed))


def expected(
    prefix: Path, sides: Sequence[str], tokenizer: Tokenizer, context: int, most: int
) -> list[list[int]]:
    """The sources of a corpus, from its text: `most` pieces at most."""
    texts = (Path(f"{prefix}.{side}").read_text(encoding="utf-8") for side in sides)
    rows: list[list[int]] = []
    for documents in zip(*(text.rstrip("\n").split("\n\n") for text in texts), strict=True):
        source, target = (tokenizer.encode_batch(each.split("\n")) for each in documents)
        earlier: list[list[int]] = []
        for ids, translated in zip(source, target, strict=True):
            if max(len(ids), len(translated)) > most:
                earlier = []
                continue
            row = ids
            for before in earlier[-context:][::-1]:
                longer = [*before, tokenizer.tag_id(SEPARATOR), *row]
                if len(longer) > most:
                    break
                row = longer
            rows.append(row)
            earlier.append(ids)
    return rows


def sources(corpus: Corpus) -> list[list[int]]:
    return [corpus.source(row).tolist() for row in range(len(corpus))]


@pytest.mark.parametrize(("context", "longest"), [(1, 128), (3, 128), (3, 45), (100, 60)])
def test_sources_begin_with_the_sentences_before_them(
    base: Path, prefix: Path, context: int, longest: int
) -> None:
    typed = f"data.context={context}", f"data.max_length={longest}"
    made = prepared(base, prefix, *typed)
    source = made.tokenizers.source
    rows = expected(prefix, ("de", "en"), source, context, longest - 1)
    assert sources(made.train) == rows
    assert made.train.source_lengths.tolist() == list(map(len, rows))
    assert max(map(len, rows)) < longest and len({len(row) for row in rows}) > 3
    plain = prepared(base, prefix, f"data.max_length={longest}")
    for row in range(len(rows)):
        assert made.train.target(row).tolist() == plain.train.target(row).tolist()
    made.train.read_ahead(np.arange(len(rows)))
    batch = make_batch(made.train, np.array([3, 4]), 1, 1)
    assert batch.source[0].tolist()[: len(rows[3])] == rows[3]
    assert source.tag_id(SEPARATOR) not in source.encode_batch([f"<tag {SEPARATOR}>"])[0]


@pytest.mark.parametrize("longest", [128, 45])
def test_a_translator_reads_what_was_trained_on(base: Path, prefix: Path, longest: int) -> None:
    made = prepared(base, prefix, "data.context=2", f"data.max_length={longest}")
    directions = Directions({"source": "de", "target": "en"}, made.tokenizers)
    vocabulary = Vocabulary(made.tokenizers.target, spaceless=False)
    codec = TextCodec(made.tokenizers, directions, longest, None, vocabulary, context=2)
    lines = Path(f"{prefix}.de").read_text(encoding="utf-8").split("\n")[:-1]
    read = []
    for request in request_lines(lines, 2):
        (request.ids,) = codec.encode([request.text])
        request.direction = codec.direction_of(request)
        read.append([each.source for each in codec.sentences_of(request)])
    (kept,) = made.train.pair_masks()
    expected = [[[*row, EOS]] for row in sources(made.train)]
    assert [each for each, is_row in zip(read, kept, strict=True) if is_row] == expected
    assert any(made.tokenizers.source.tag_id(SEPARATOR) in row for ((*row,),) in expected)


def test_each_sentence_keeps_its_tag(base: Path, prefix: Path) -> None:
    made = prepared(base, prefix, "data.context=1", "data.languages=[de,en]")
    tokenizer = made.tokenizers.source
    for component, share in zip(made.train.components, made.train.shares, strict=True):
        own = tokenizer.with_tag(str(component.tag))
        found = sources(made.train)[share.start : share.stop]
        assert found == expected(prefix, component.languages, own, 1, 127)


def test_a_corpus_is_not_the_context_of_the_next(base: Path, prefix: Path) -> None:
    two = f"data.train={{a: {{path: {prefix}}}, b: {{path: {prefix}}}}}"
    made = prepared(base, prefix, two, "data.context=2")
    rows = sources(made.train)
    assert rows[: len(rows) // 2] == rows[len(rows) // 2 :]


def test_rows_are_counted_in_their_document() -> None:
    """0 is a pair that is kept, 1 one with an empty side, 2 one that is too long."""
    outcomes = np.array([0, 0, 2, 0, 1, 1, 0, 0, 1, 0, 0], np.uint8)
    assert count_preceding(outcomes, [7, 4]).tolist() == [0, 1, 0, 0, 0, 0, 1]
    assert outcomes.tolist() == [0, 0, 2, 0, 1, 1, 0, 0, 1, 0, 0]


def test_a_short_corpus_has_less_context_than_asked_for(base: Path, prefix: Path) -> None:
    class Rows:
        lengths = np.array([2, 3], np.int32)

    found = ContextArray(Rows(), np.array([0, 1]), 9, 7, 100)  # type: ignore[arg-type]
    assert found.lengths.tolist() == [2, 6] and found.counts.tolist() == [0, 1]


@pytest.mark.parametrize(
    "typed",
    [
        "data.augment.typos=0.1",
        "tokenizer.dropout=0.1",
        "guided.links=links.align",
        "decode.min_length_ratio=0.2",
        "decode.coverage=0.2",
    ],
)
def test_options_for_single_sentences_are_refused(base: Path, typed: str) -> None:
    with pytest.raises(ConfigError, match="data.context=2 puts others before it"):
        plan_of(base, *tiny_overrides(base), "data.context=2", typed)


def test_the_length_limit_is_that_of_single_sentences(base: Path, tmp_path: Path) -> None:
    """Context makes sources longer, and a sentence may come without it."""
    for side, repeated in (("de", 1), ("en", 3)):
        lines = (" ".join([line] * repeated) for line in demo_lines("train", side, 300))
        (tmp_path / f"long.{side}").write_text("\n".join(lines), encoding="utf-8")
    typed = f"data.train={tmp_path / 'long'}", "data.max_length=400", "decode.length_ratio=null"
    learnt = []
    for context in (0, 2):
        plan = plan_of(base, *tiny_overrides(base), *typed, f"data.context={context}")
        learnt.append(describe_run(plan, prepared_for(plan))["config"]["decode"]["length_ratio"])
    assert learnt[0] == learnt[1] > 3


def test_a_run_with_context_is_resumed_with_it(base: Path, prefix: Path) -> None:
    data = f"data.train={prefix}", "trainer.max_steps=1", "trainer.val_check_interval=1"
    run = train_tiny(base, *data, "data.context=1")
    with pytest.raises(ConfigError, match="data.context"):
        train_tiny(base, *data, f"resume={run / 'last.ckpt'}", "tokenizer=checkpoint")
    plain = train_tiny(base, *data)
    with pytest.raises(ConfigError, match="lack the symbol of data.context"):
        train_tiny(base, *data, "data.context=1", f"init={plain}", "tokenizer=checkpoint")
    again = train_tiny(base, *data, "data.context=1", f"init={plain}", "init.vocabulary=mapped")
    assert Translator.load(again).context == 1
    more = train_tiny(base, *data, "data.context=2", f"init={again}", "tokenizer=checkpoint")
    assert Translator.load(more).context == 2
