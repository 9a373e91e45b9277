"""Tokenizers whose pieces are whole words or characters; any others are unknown."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.base.symbols import NAMES
from seq2seq.text.tokenization.recipe import Recipe
from seq2seq.text.tokenization.tokenizer import Tokenizer
from seq2seq.text.tokenization.unigram import FOREIGN, JOINED_WORDS, LITERAL_MARK, MARK, WORDS

# A punctuation mark or symbol, with the mark for the space before it.
PUNCTUATION = f"{MARK}?[[\\p{{P}}\\p{{S}}]&&[^{MARK}]]"


@dataclass(frozen=True, kw_only=True)
class MostFrequent(Recipe):
    """Base class for tokenizers whose pieces are the most frequent words or characters of a text.

    Args:
        min_frequency: number of times that a piece must occur.

    Raises: ConfigError for a value out of range.
    """

    pieces: ClassVar[str]  # name of the pieces in messages
    min_frequency: int = 1

    def __post_init__(self) -> None:
        if self.vocab_size is not None and self.vocab_size <= len(NAMES):
            raise ConfigError(
                f"tokenizer.vocab_size={self.vocab_size} is too small: control symbols take "
                f"{len(NAMES)} ids, and {self.pieces} need more: type tokenizer.vocab_size=8000, "
                f"or null for all {self.pieces}"
            )
        check_range("tokenizer.min_frequency", self.min_frequency, 1)

    def collect(self, library: tokenizers.Tokenizer, lines: Iterable[str]) -> Tokenizer:
        """Train the library's tokenizer on the most frequent pieces, up to `vocab_size` ids."""
        trainer = trainers.WordLevelTrainer(
            vocab_size=2**31 if self.vocab_size is None else self.vocab_size,
            min_frequency=self.min_frequency,
            special_tokens=list(NAMES),
            show_progress=False,
        )
        library.train_from_iterator(lines, trainer)
        return Tokenizer(library)


@dataclass(frozen=True, kw_only=True)
class WordLevel(MostFrequent):
    """Words as pieces: the most frequent ones of a text.

    White space separates words. A run of white space becomes one space, and is removed at the ends;
    the noncharacter U+FDD1 becomes U+FFFD; the rest of the text is unchanged. A word outside the
    vocabulary becomes the unknown symbol, which decoding leaves out.

    Args:
        vocab_size: total number of ids: 4 control symbols and the most frequent words; None = all
            words.
        joint: one tokenizer for both languages (True), or one for each.
        normalize: None leaves characters unchanged; "nfc" first composes accented characters.
        min_frequency: number of times that a word must occur to be a piece.
        isolate_punctuation: False splits at white space only (`I_TURN_LEFT` is one word); True
            makes each punctuation mark and each symbol a separate word. Decoding still restores
            the space before it.

    Raises: ConfigError for a value out of range.
    """

    pieces = "words"
    isolate_punctuation: bool = False

    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """Collect the words. The same lines always give the same tokenizer."""
        library = tokenizers.Tokenizer(models.WordLevel(unk_token=NAMES[3]))
        library.normalizer = self.normalizer(
            normalizers.Replace(LITERAL_MARK, FOREIGN),
            normalizers.Replace(MARK, LITERAL_MARK),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Strip(),
            # So that each word begins with the mark, and none is equal to a control symbol.
            normalizers.Prepend(" "),
        )
        marks = pre_tokenizers.Split(Regex(PUNCTUATION), "isolated")
        cuts = [WORDS, marks] if self.isolate_punctuation else [WORDS]
        library.pre_tokenizer = pre_tokenizers.Sequence(cuts)
        library.decoder = decoders.Sequence(JOINED_WORDS)
        return self.collect(library, lines)


@dataclass(frozen=True, kw_only=True)
class CharacterLevel(MostFrequent):
    """Characters (code points) as pieces: the most frequent ones of a text.

    The text is unchanged, including white space. A character outside the vocabulary becomes the
    unknown symbol, which decoding leaves out.

    Args:
        vocab_size: total number of ids: 4 control symbols and the most frequent characters; None =
            all characters.
        joint: one tokenizer for both languages (True), or one for each.
        normalize: None leaves characters unchanged; "nfc" first composes accented characters.
        min_frequency: number of times that a character must occur to be a piece.

    Raises: ConfigError for a value out of range.
    """

    pieces = "characters"

    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """Collect the characters. The same lines always give the same tokenizer."""
        # Names of control symbols are longer than one character, so no piece has such a name.
        library = tokenizers.Tokenizer(models.WordLevel(unk_token=NAMES[3]))
        if self.normalize == "nfc":
            library.normalizer = normalizers.NFC()
        library.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")
        library.decoder = decoders.Fuse()
        return self.collect(library, lines)
