"""Marks of source pieces: whether a piece begins a word, ends a sentence, or has no position.

Marks are a function of piece ids, so the tokenizer alone determines them: in training, in
translation, and after loading a checkpoint.
"""

from fnmatch import fnmatchcase
from typing import Literal

import torch
from torch import Tensor

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS, PAD
from seq2seq.text.tokenization.tokenizer import Tokenizer

Groups = Literal["none", "words", "sentences"]

# Characters that separate words, as in alignments.
WHITE_SPACE = tuple(" \t\n\r\f\v")


def group_marks(
    tokenizer: Tokenizer, groups: Groups, sentence_separator: str | None
) -> Tensor | None:
    """The marks of each id: it begins a word, a word ends after it, it ends a sentence.

    A piece begins a word if it begins with white space. Control symbols (EOS too), tags and the
    unknown symbol are separate words. A piece that contains the separator ends a sentence; EOS
    belongs to the last one.

    Args:
        groups: `words`, or `sentences`, which means words and sentences.
        sentence_separator: the text that ends a sentence.

    Returns: (V, 2) for words, (V, 3) for sentences, bool; None for none.
    Raises: ConfigError if no piece contains the separator.
    """
    if groups == "none":
        return None
    texts = tokenizer.texts()
    begins = [not text or text.startswith(WHITE_SPACE) for text in texts]
    closes = [not text for text in texts]
    if groups == "words":
        return torch.tensor([begins, closes]).T.contiguous()
    assert sentence_separator is not None
    ends = [sentence_separator in text for text in texts]
    if not any(ends):
        raise ConfigError(
            f"data.sentence_separator={sentence_separator!r} is in no piece of the source's "
            "tokenizer, so no sentence would end. Use a mark that is one piece, without white "
            "space around it: data.sentence_separator=."
        )
    for symbol in (EOS, PAD):  # no sentence begins after the last separator
        ends[symbol] = True
    return torch.tensor([begins, closes, ends]).T.contiguous()


def mark_unpositioned(tokenizer: Tokenizer, pattern: str | None) -> Tensor | None:
    """Mark the ids whose text, stripped of white space, matches the pattern `model.unpositioned`,
    where `*` matches any text: (V,) bool; None without a pattern.

    Raises: ConfigError if no piece matches.
    """
    if pattern is None:
        return None
    texts = (text.strip() for text in tokenizer.texts())  # empty for control symbols and tags
    matches = [bool(text) and fnmatchcase(text, pattern) for text in texts]
    if not any(matches):
        raise ConfigError(
            f"model.unpositioned={pattern!r} matches no piece of the source's tokenizer. Features "
            "such as <PL> are pieces with tokenizer=word: model.unpositioned='<*>', or null"
        )
    return torch.tensor(matches)
