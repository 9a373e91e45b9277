"""Byte pair encoding: learnt over bytes, or as subword-nmt has learnt it over characters.

Sennrich et al. 2016, arXiv:1508.07909. Over bytes, so that no character is unknown: Radford et al.
2019 (GPT-2).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from seq2seq.base.errors import DataError
from seq2seq.base.registry import check_range
from seq2seq.base.symbols import NAMES, UNK
from seq2seq.text.tokenization.recipe import PretrainedTokenizer, SubwordRecipe
from seq2seq.text.tokenization.tokenizer import Tokenizer

END = "</w>"  # of the last piece of a word
HEADER = "#version: 0.2"


@dataclass(frozen=True, kw_only=True)
class ByteLevelBPE(SubwordRecipe):
    """Byte pair encoding: the most frequent pair of neighbours is merged again and again.

    Words are split first, each with the space before it, and nothing merges across words.

    Args:
        vocab_size: ids in all: 4 control symbols, 256 bytes, and merges, fewer from a small text.
        joint: one tokenizer for both languages (True), or one for each.
        normalize: None keeps the text as it is, so that decoding gives back what was encoded; "nfc"
            first writes accents in composed form.
        max_token_length: bytes in the longest piece; avoids pieces that are whole phrases in
            scripts without spaces.
        isolate_cjk: nothing merges across a Han, Hiragana or Katakana character.
        dropout: probability with which a merge is left out in training, see `BPEDropout`. The
            learnt tokenizer does not depend on it.

    Raises: ConfigError for a value out of range.
    """

    others = "merges"
    shortest = 2
    # Not in the repr: it changes nothing about the learnt tokenizer.
    dropout: float = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        check_range("tokenizer.dropout", self.dropout, 0, 1)
        super().__post_init__()

    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """Learn the merges from text. The same lines always give the same tokenizer."""
        library = tokenizers.Tokenizer(models.BPE())
        if self.normalize == "nfc":
            library.normalizer = normalizers.NFC()
        words = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.pre_tokenizer = self.splitter(words)
        library.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            special_tokens=list(NAMES),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            # The limit of the library is exclusive.
            max_token_length=self.max_token_length + 1,
            show_progress=False,
        )
        library.train_from_iterator(lines, trainer)
        return Tokenizer(library)


@dataclass(frozen=True, kw_only=True)
class SubwordNMT(PretrainedTokenizer):
    """The merges of a file of codes; only the characters are collected from the text.

    Text is expected as it was for these codes: tokenized, with a space between words. A character
    that the training text lacks becomes the unknown symbol. What subword-nmt writes as `lo@@ wer`
    are the pieces `lo` and `wer</w>`.

    Args:
        path: path of the codes for both languages, or two paths, source then target.

    Raises: ConfigError for a path without a file, DataError for a file without codes.
    """

    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """The tokenizer of the file, with the characters of the text. Raises: DataError."""
        merges = read_codes(self.paths[side])
        letters = sorted({letter for line in lines for letter in line if letter != " "})
        names = dict.fromkeys([*NAMES, *letters, *(letter + END for letter in letters)])
        for one, other in merges:
            names |= dict.fromkeys([one, other, one + other])
        ids = {name: i for i, name in enumerate(names)}
        library = tokenizers.Tokenizer(
            models.BPE(ids, merges, unk_token=NAMES[UNK], end_of_word_suffix=END)
        )
        library.add_special_tokens(list(NAMES))
        library.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
        library.decoder = decoders.BPEDecoder(END)
        return Tokenizer(library)


def read_codes(path: Path) -> list[tuple[str, str]]:
    """The merges of a file, the most frequent first. Raises: DataError."""
    try:
        first, *lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} holds no codes of subword-nmt: {error}") from error
    if first.rstrip() != HEADER:
        raise DataError(
            f"{path}:1: {first[:40]!r} should be {HEADER!r}: a file written by "
            "`subword-nmt learn-bpe` since version 0.2"
        )
    merges = []
    for number, line in enumerate(lines, start=2):
        pair = line.rstrip("\r").split(" ")
        if len(pair) == 2 and all(pair) and "".join(pair) not in NAMES:
            merges.append((pair[0], pair[1]))
        elif line.strip() and len(pair) != 2:
            raise DataError(
                f"{path}:{number}: {line[:40]!r} should be two pieces and a space between"
            )
    return merges
