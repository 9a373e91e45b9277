"""Byte-level byte pair encoding, which can encode any text.

Byte pair encoding: Sennrich et al. 2016, arXiv:1508.07909. Over bytes, so that no character is
unknown: Radford et al. 2019 (GPT-2).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from seq2seq.base.registry import check_range
from seq2seq.base.symbols import NAMES
from seq2seq.text.tokenization.recipe import Recipe, check_vocab_size, split_at_cjk
from seq2seq.text.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class ByteLevelBPE(Recipe):
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

    vocab_size: int = 8000
    max_token_length: int = 16
    isolate_cjk: bool = False
    # Not in the repr: it changes nothing about the learnt tokenizer.
    dropout: float = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        check_range("tokenizer.dropout", self.dropout, 0, 1)
        check_vocab_size(self.vocab_size, "merges")
        check_range("tokenizer.max_token_length", self.max_token_length, 2)

    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """Learn the merges from text. The same lines always give the same tokenizer."""
        library = tokenizers.Tokenizer(models.BPE())
        if self.normalize == "nfc":
            library.normalizer = normalizers.NFC()
        words = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.pre_tokenizer = split_at_cjk(words) if self.isolate_cjk else words
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
