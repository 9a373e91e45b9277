"""Base classes for the recipes from which tokenizers are made."""

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

# A character of Chinese or Japanese, which are written without spaces between words.
CJK = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
# Most bytes in the file of a pretrained tokenizer; the largest in use have 5 million.
LARGEST = 2**24


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """Options for learning a tokenizer, checked on creation. The repr is part of the cache key.

    Args:
        vocab_size: number of ids, including the 4 control symbols; None = all pieces of the text.
        joint: one tokenizer for both languages (True), or one for each.
        normalize: None leaves characters unchanged; "nfc" first composes accented characters.
    """

    vocab_size: int | None = None
    joint: bool = True
    normalize: Literal["nfc"] | None = None

    def normalizer(self, *steps: normalizers.Normalizer) -> normalizers.Normalizer:
        """A normalizer that applies `normalize` first, then the given steps."""
        first = [normalizers.NFC()] if self.normalize == "nfc" else []
        return normalizers.Sequence([*first, *steps])

    @abstractmethod
    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """Learn a tokenizer from text.

        Args:
            side: 0 for the source or for both languages, 1 for the target.

        Raises: ConfigError if the options do not suit the text.
        """


@dataclass(frozen=True, kw_only=True)
class SubwordRecipe(Recipe):
    """Base class for tokenizers whose pieces are parts of words, and bytes for anything else.

    Args:
        max_token_length: characters or bytes in the longest piece.
        isolate_cjk: split at every Han, Hiragana and Katakana character first.

    Raises: ConfigError for a value out of range.
    """

    others: ClassVar[str]  # name, in messages, of the pieces other than bytes and control symbols
    shortest: ClassVar[int] = 1  # lowest value of max_token_length
    vocab_size: int = 8000
    max_token_length: int = 16
    isolate_cjk: bool = False

    def __post_init__(self) -> None:
        smallest = len(NAMES) + 256
        if self.vocab_size < smallest:
            raise ConfigError(
                f"tokenizer.vocab_size={self.vocab_size} is too small: 256 bytes and {len(NAMES)} "
                f"control symbols take {smallest} ids, and {self.others} need more: type "
                "tokenizer.vocab_size=8000"
            )
        check_range("tokenizer.max_token_length", self.max_token_length, self.shortest)

    def splitter(self, words: pre_tokenizers.PreTokenizer) -> pre_tokenizers.PreTokenizer:
        """A splitter that applies `isolate_cjk` first, then `words`."""
        characters = pre_tokenizers.Split(Regex(CJK), "isolated")
        return pre_tokenizers.Sequence([characters, words]) if self.isolate_cjk else words


@dataclass(frozen=True, kw_only=True)
class PretrainedTokenizer(Recipe):
    """Base class for tokenizers read from a file, or from one file for each language.

    Args:
        path: path of a file for both languages, or two paths, source then target.

    Raises: ConfigError if there is no such file.
    """

    absent_options: ClassVar[dict[str, str]] = dict.fromkeys(
        ("vocab_size", "joint", "normalize"),
        "the file of tokenizer.path determines it already; leave it out",
    )
    path: str | list[str]
    content: str = field(init=False)  # digest of the files, on which the cache depends

    def __post_init__(self) -> None:
        if len(self.paths) not in (1, 2):
            raise ConfigError("tokenizer.path should be one file, or two: [source, target]")
        for path in self.paths:
            if not path.is_file() or path.stat().st_size > LARGEST:
                raise ConfigError(
                    f"tokenizer.path={path}: there is no such file of at most {LARGEST:,} bytes"
                )
        digests = [sha256(path.read_bytes()).hexdigest() for path in self.paths]
        object.__setattr__(self, "content", " ".join(digests))
        object.__setattr__(self, "joint", len(self.paths) == 1)

    @property
    def paths(self) -> list[Path]:
        return [Path(each) for each in ([self.path] if isinstance(self.path, str) else self.path)]
