"""The tokens that belong to one word or one sentence, with real tokenizers."""

from typing import Any

import pytest
import torch
from helpers.tiny_runs import demo_lines

from seq2seq.alignment.links import words
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS, PAD, UNK
from seq2seq.data.corpus.groups import group_marks
from seq2seq.functional.context import token_groups
from seq2seq.text.tokenization.bpe import ByteLevelBPE
from seq2seq.text.tokenization.tokenizer import Tokenizer
from seq2seq.text.tokenization.unigram import Unigram
from seq2seq.text.tokenization.words import CharacterLevel, WordLevel

RECIPES: dict[str, Any] = {
    "bpe": ByteLevelBPE(vocab_size=300),
    "cjk": ByteLevelBPE(vocab_size=300, isolate_cjk=True),
    "unigram": Unigram(vocab_size=420),
    "word": WordLevel(isolate_punctuation=True),
    "char": CharacterLevel(),
}
LINES = [*demo_lines("train", "de", 200), "unhappiness is a\tb here. Na?! 3.14 \u00a0 中文。"]


@pytest.fixture(params=RECIPES)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    recipe = RECIPES[request.param]
    learnt: Tokenizer = recipe.train(LINES)
    return learnt


def grouped(tokenizer: Tokenizer, text: str, separator: str | None = None) -> list[list[str]]:
    """The text of each word, or of each sentence, the end symbol written </s>."""
    marks = group_marks(tokenizer, "sentences" if separator else "words", separator)
    assert marks is not None
    ids = [*tokenizer.encode_batch([text])[0], EOS]
    group_ids = token_groups(torch.tensor([ids]), marks)[0, :, -1].tolist()
    pieces = tokenizer.texts()
    result: list[list[str]] = []
    for place, (i, group_id) in enumerate(zip(ids, group_ids, strict=True)):
        if place == 0 or group_id != group_ids[place - 1]:
            result.append([])
        result[-1].append("</s>" if i == EOS else pieces[i])
    return result


def joined(groups: list[list[str]]) -> list[str]:
    return ["".join(pieces).strip() for pieces in groups]


def test_the_pieces_of_a_word_form_a_group_and_the_end_another(tokenizer: Tokenizer) -> None:
    assert joined(grouped(tokenizer, "unhappiness is here.")) == [
        *("unhappiness", "is", "here."),
        "</s>",
    ]


def test_words_are_the_same_as_in_alignments(tokenizer: Tokenizer) -> None:
    for text in LINES:
        # Alone, a part of a letter of several bytes is not that letter.
        spaced = " ".join(word for word in text.split() if word.isascii())
        expected = [word.text for word in words(spaced)]
        assert joined(grouped(tokenizer, spaced)) == [*expected, "</s>"]


def test_a_tab_separates_words_as_a_space_does() -> None:
    tokenizer = RECIPES["bpe"].train(LINES)
    assert joined(grouped(tokenizer, "a\tb a")) == ["a", "b", "a", "</s>"]


def test_sentences_end_after_the_separator_and_eos_is_in_the_last(
    tokenizer: Tokenizer,
) -> None:
    text = "a is here. is a... Na"
    assert joined(grouped(tokenizer, text, ".")) == ["a is here.", "is a...", "Na</s>"]
    assert joined(grouped(tokenizer, f"{text}.", "."))[-1] == "Na.</s>"


def test_words_come_first_and_sentences_second(tokenizer: Tokenizer) -> None:
    ids = torch.tensor([[*tokenizer.encode_batch(["a is here. is a"])[0], EOS]])
    of_words = group_marks(tokenizer, "words", None)
    of_both = group_marks(tokenizer, "sentences", ".")
    assert of_words is not None and of_both is not None
    assert torch.equal(token_groups(ids, of_both)[..., :1], token_groups(ids, of_words))
    assert group_marks(tokenizer, "none", None) is None


def test_groups_do_not_depend_on_padding_or_on_other_rows(tokenizer: Tokenizer) -> None:
    marks = group_marks(tokenizer, "sentences", ".")
    assert marks is not None
    rows = [[*ids, EOS] for ids in tokenizer.encode_batch(["a is here. is a", "is"])]
    width = max(map(len, rows)) + 3
    batch = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    for n, row in enumerate(rows):
        alone = token_groups(torch.tensor([row]), marks)
        assert torch.equal(token_groups(batch, marks)[n : n + 1, : len(row)], alone)


def test_tags_and_unknown_symbols_are_separate_words() -> None:
    tokenizer = RECIPES["word"].train(LINES).with_tags(["news"])
    marks = group_marks(tokenizer, "words", None)
    assert marks is not None
    known = tokenizer.encode_batch(["is here"])[0]
    ids = torch.tensor([[tokenizer.tag_id("news"), *known, UNK, known[0], EOS]])
    assert token_groups(ids, marks).flatten().diff().tolist() == [1] * 5
    letters = RECIPES["bpe"].train(LINES).with_tags(["news"]).with_tag("news")
    assert joined(grouped(letters, "Na")) == ["", "Na", "</s>"]


def test_the_texts_of_pieces_add_up_to_the_text(tokenizer: Tokenizer) -> None:
    texts = tokenizer.texts()
    assert len(texts) == tokenizer.size and not any(texts[:4])
    text = "unhappiness is here."
    assert "".join(texts[i] for i in tokenizer.encode_batch([text])[0]).strip() == text


def test_a_separator_that_is_in_no_piece_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match=r"'\. ' is in no piece .*data.sentence_separator=\."):
        group_marks(tokenizer, "sentences", ". ")
