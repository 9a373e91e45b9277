"""Byte pair encoding: learnt here over bytes, or read from subword-nmt, over characters.

Sennrich et al. 2016, arXiv:1508.07909. Bytes, which leave no character unknown: Radford et al. 2019
(GPT-2).
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

END = "</w>"  # suffix of the last piece of a word
HEADER = "#version: 0.2"


@dataclass(frozen=True, kw_only=True)
class ByteLevelBPE(SubwordRecipe):
    """Byte pair encoding: merges the most frequent pair of neighbours again and again.

    Text is first split into words, each with the space before it; merges never cross words.

    Args:
        vocab_size: total number of ids: 4 control symbols, 256 bytes, and merges. A small text may
            give fewer.
        joint: one tokenizer for both languages (True), or one for each.
        normalize: None leaves the text unchanged, so that decoding restores exactly what was
            encoded; "nfc" first composes accented characters.
        max_token_length: bytes in the longest piece; prevents pieces that are whole phrases in
            scripts without spaces.
        isolate_cjk: whether to keep each Han, Hiragana and Katakana character out of merges.
        dropout: probability of leaving out a merge in training, see `BPEDropout`. The learnt
            tokenizer does not depend on it.

    Raises: ConfigError for a value out of range.
    """

    others = "merges"
    shortest = 2
    # Left out of the repr, since it does not affect the learnt tokenizer.
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
            # The library's limit is exclusive.
            max_token_length=self.max_token_length + 1,
            show_progress=False,
        )
        library.train_from_iterator(lines, trainer)
        return Tokenizer(library)


@dataclass(frozen=True, kw_only=True)
class SubwordNMT(PretrainedTokenizer):
    """Byte pair encoding with the merges of a codes file; only the characters come from the text.

    Text must be prepared as it was for learning the codes: tokenized, with a space between words. A
    character missing from the training text becomes the unknown symbol. The pieces that subword-nmt
    writes as `lo@@ wer` are `lo` and `wer</w>` here.

    Args:
        path: path of the codes for both languages, or two paths, source then target.

    Raises: ConfigError if there is no such file.
    """

    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """Read the merges, collect the characters. Raises: DataError if the file has no codes."""
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
    """Read the merges from a file, the most frequent first. Raises: DataError for other files."""
    try:
        first, *lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as codes of subword-nmt: {error}") from error
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
                f"{path}:{number}: {line[:40]!r} should be two pieces with a space between them"
            )
    return merges
