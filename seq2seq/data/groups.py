"""Which pieces begin a word, and which end a sentence: what the groups of tokens are made of.

Groups are a function of piece ids, so whoever has the tokenizer finds the same groups: training,
translation, and a checkpoint that was loaded again.
"""

from typing import Literal

import torch
from torch import Tensor

from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import ConfigError
from seq2seq.symbols import EOS, PAD

Groups = Literal["none", "words", "sentences"]

# A word is what stands between these, as for alignments.
WHITE_SPACE = tuple(" \t\n\r\f\v")


def group_marks(
    tokenizer: Tokenizer, groups: Groups, sentence_separator: str | None
) -> Tensor | None:
    """For each id: does it begin a word, does a word end behind it, does it end a sentence?

    A piece begins a word if it begins with white space. Control symbols, the end among them, tags
    and the unknown symbol are words of their own. A piece that holds the separator ends a sentence;
    the end symbol belongs to the last one.

    Args:
        groups: `words`, or `sentences`, which are words and sentences.
        sentence_separator: what ends a sentence.

    Returns: (V, 2) for words, (V, 3) for sentences, bool; None for none.
    Raises: ConfigError if no piece holds the separator, for then it would separate nothing.
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
            "tokenizer, so no sentence would end. Take a mark that is one piece, without white "
            "space around it: data.sentence_separator=."
        )
    for symbol in (EOS, PAD):  # behind the last separator no further sentence begins
        ends[symbol] = True
    return torch.tensor([begins, closes, ends]).T.contiguous()


def check_groups(groups: Groups, separator: str | None) -> None:
    """Raises: ConfigError for sentences without a separator, and a separator without sentences."""
    if groups == "sentences" and not separator:
        raise ConfigError(
            "data.groups=sentences needs to know what ends one: data.sentence_separator=."
        )
    if groups != "sentences" and separator is not None:
        raise ConfigError(
            f"data.sentence_separator={separator!r} means nothing with data.groups={groups}: "
            "data.groups=sentences, or data.sentence_separator=null"
        )
