"""The base class of all kinds of tokenizers, and what several of them share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Literal

from tokenizers import Regex, normalizers, pre_tokenizers

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.base.symbols import NAMES
from seq2seq.text.tokenization.tokenizer import Tokenizer

# A character of a script without spaces between words.
CJK = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
# Bytes of a file that is read instead of learning; the largest in use have 5 million.
LARGEST = 2**24


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """Options for learning a tokenizer, checked on creation. Their repr names it in the cache.

    Args:
        vocab_size: number of ids, with the 4 control symbols; None for all pieces of the text.
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


@dataclass(frozen=True, kw_only=True)
class SubwordRecipe(Recipe):
    """Base class: pieces are parts of words, and bytes for whatever else a text may have.

    Args:
        max_token_length: characters or bytes in the longest piece.
        isolate_cjk: split at every Han, Hiragana and Katakana character first.

    Raises: ConfigError for a value out of range.
    """

    others: ClassVar[str]  # the pieces beside bytes and control symbols, for messages
    shortest: ClassVar[int] = 1  # that the longest piece may be
    vocab_size: int = 8000
    max_token_length: int = 16
    isolate_cjk: bool = False

    def __post_init__(self) -> None:
        smallest = len(NAMES) + 256
        if self.vocab_size < smallest:
            raise ConfigError(
                f"tokenizer.vocab_size={self.vocab_size} is too small: 256 bytes and {len(NAMES)} "
                f"control symbols make {smallest}, and {self.others} need more: "
                "tokenizer.vocab_size=8000"
            )
        check_range("tokenizer.max_token_length", self.max_token_length, self.shortest)

    def splitter(self, words: pre_tokenizers.PreTokenizer) -> pre_tokenizers.PreTokenizer:
        """Splits at the characters of `isolate_cjk`, then as `words` does."""
        characters = pre_tokenizers.Split(Regex(CJK), "isolated")
        return pre_tokenizers.Sequence([characters, words]) if self.isolate_cjk else words


@dataclass(frozen=True, kw_only=True)
class PretrainedTokenizer(Recipe):
    """Base class: the pieces are read from one file, or from one for each language.

    Args:
        path: path of a file for both languages, or two paths, source then target.

    Raises: ConfigError for a path without a file.
    """

    absent_options: ClassVar[dict[str, str]] = dict.fromkeys(
        ("vocab_size", "joint", "normalize"),
        "what tokenizer.path names has it already; leave it out",
    )
    path: str | list[str]
    content: str = field(init=False)  # a digest: what is cached belongs to this content

    def __post_init__(self) -> None:
        if len(self.paths) not in (1, 2):
            raise ConfigError("tokenizer.path should be one file, or two: [source, target]")
        for path in self.paths:
            if not path.is_file() or path.stat().st_size > LARGEST:
                raise ConfigError(f"tokenizer.path={path}: there is no such file, or a huge one")
        digests = [sha256(path.read_bytes()).hexdigest() for path in self.paths]
        object.__setattr__(self, "content", " ".join(digests))
        object.__setattr__(self, "joint", len(self.paths) == 1)

    @property
    def paths(self) -> list[Path]:
        return [Path(each) for each in ([self.path] if isinstance(self.path, str) else self.path)]
