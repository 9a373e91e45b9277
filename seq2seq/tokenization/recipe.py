"""The base class of all kinds of tokenizers, and what several of them share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tokenizers import Regex, normalizers, pre_tokenizers

from seq2seq.errors import ConfigError
from seq2seq.symbols import NAMES
from seq2seq.tokenization.tokenizer import Tokenizer

# A character of a script without spaces between words.
CJK = r"[\p{Han}\p{Hiragana}\p{Katakana}]"


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """Options of learning a tokenizer, checked on creation. Their repr names it in the cache.

    Args:
        vocab_size: ids in all, the 4 control symbols counted; None for all pieces of the text.
        joint: one tokenizer for both languages (True), or one for each.
        normalize: None keeps characters as they are; "nfc" first writes accents in composed form.
    """

    vocab_size: int | None = None
    joint: bool = True
    normalize: Literal["nfc"] | None = None

    def normalizer(self, *steps: normalizers.Normalizer) -> normalizers.Normalizer:
        """The normalisation `normalize`, then these steps."""
        first = [normalizers.NFC()] if self.normalize == "nfc" else []
        return normalizers.Sequence([*first, *steps])

    @abstractmethod
    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """Learn it from text, of the source (side 0), the target (1), or both (0).

        Raises: ConfigError if the options do not suit the text.
        """


def check_vocab_size(size: int, others: str) -> None:
    """Raises: ConfigError if the control symbols and all bytes do not fit."""
    smallest = len(NAMES) + 256
    if size < smallest:
        raise ConfigError(
            f"tokenizer.vocab_size={size} is too small: 256 bytes and {len(NAMES)} control symbols "
            f"make {smallest}, and {others} need more: tokenizer.vocab_size=8000"
        )


def split_at_cjk(words: pre_tokenizers.PreTokenizer) -> pre_tokenizers.PreTokenizer:
    """Splits at every Han, Hiragana and Katakana character, then as `words` does."""
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CJK), "isolated"), words])
