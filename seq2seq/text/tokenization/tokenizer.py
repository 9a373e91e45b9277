"""The tokenizer: text to piece ids and back."""

from collections.abc import Iterable
from typing import NamedTuple

import tokenizers

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.symbols import BOS, EOS, NAMES, PAD, UNK

# The symbol for a tag. No kind of tokenizer has pieces with a plain space, so no piece has the name
# of a tag.
TAG = "<tag {}>"
SEPARATOR = "next sentence"  # the tag after a sentence of context; other tags have no spaces
# A private character. A tokenizer that encodes it can encode any unknown character.
UNSEEN = "\U0010fffd"


class Tokenizer:
    """Segments text into pieces with ids, and joins pieces to text again.

    The four control symbols have the ids of `seq2seq.base.symbols`. No text produces them, not even
    one that contains "<s>", and `decode_batch` never writes them.

    Raises: DataError if the library's tokenizer has other ids for the control symbols, if its ids
        are not 0 to `size` - 1, or if it pads or truncates texts.
    """

    def __init__(self, library: tokenizers.Tokenizer):
        ids = [library.token_to_id(name) for name in NAMES]
        if ids != [PAD, BOS, EOS, UNK]:
            raise DataError(
                f"the tokenizer has the ids {ids} for {', '.join(NAMES)}; expected 0, 1, 2, 3."
            )
        every, size = sorted(library.get_vocab().values()), library.get_vocab_size()
        if every != list(range(size)):
            missing = min({*range(size)} - {*every}, default=size)
            raise DataError(
                f"the ids of the tokenizer's {size:,} pieces should be 0 to {size - 1}, each once: "
                f"there is no {missing}, and the largest is {max(every)}"
            )
        if library.padding or library.truncation:
            raise DataError(
                "the tokenizer should neither pad nor truncate texts: save it without padding and "
                "truncation"
            )
        # Without this setting, which the library does not save, "<s>" in a text becomes a symbol.
        library.encode_special_tokens = True
        self._library = library
        self.prefix: list[int] = []  # id of the tag to put before every text; empty = none

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """Make a tokenizer from the result of `to_json`. Raises: DataError for any other text."""
        try:
            library = tokenizers.Tokenizer.from_str(text)
            library.encode(UNSEEN)
        except Exception as error:  # the library raises nothing narrower
            raise DataError(f"this does not describe a tokenizer: {error}") from error
        return cls(library)

    def to_json(self) -> str:
        """A description from which `from_json` makes the same tokenizer."""
        return self._library.to_str()

    @property
    def size(self) -> int:
        """Size of the vocabulary, including control symbols."""
        return self._library.get_vocab_size()

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, without BOS and EOS; the tag, if there is one, comes first."""
        encodings = self._library.encode_batch_fast(texts, add_special_tokens=False)
        return [[*self.prefix, *encoding.ids] for encoding in encodings]

    def decode_batch(self, rows: list[list[int]]) -> list[str]:
        """The text of each row up to its first EOS, without other control symbols.

        Bytes that do not form a character, as a model may produce them, become U+FFFD.
        """
        cut = [row[: row.index(EOS)] if EOS in row else row for row in rows]
        return self._library.decode_batch(cut, skip_special_tokens=True)

    def texts(self) -> list[str]:
        """The text that each id adds when it follows another piece: nothing for control symbols
        and tags, U+FFFD for a part of a character.
        """
        alone = self.decode_batch([[i] for i in range(self.size)])
        # Some tokenizers drop the space before the first piece of a text, so decode after another.
        visible = (
            i for i, text in enumerate(alone) if text.strip(" \ufffd") and text.isprintable()
        )
        first = next(visible, None)
        if first is None:
            return alone
        pairs = self.decode_batch([[first, i] for i in range(self.size)])
        return [pair[len(alone[first]) :] for pair in pairs]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each piece in the text, as (first character, character after the last). Tags
        have no span.

        Leading white space is not part of a span, unless the piece consists of it. If a character
        is made of several pieces, as Chinese ones can be, each piece has the span of the character.
        """
        return self.spans_batch([text])[0]

    def spans_batch(self, texts: list[str]) -> list[list[tuple[int, int]]]:
        """`spans` of each text."""
        encodings = self._library.encode_batch(texts, add_special_tokens=False)
        return [
            [(e - len(text[s:e].lstrip() or text[s:e]), e) for s, e in encoding.offsets]
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def symbols(self) -> list[str]:
        """A unique name for each id: the library's tokens. Byte-level pieces have a letter for each
        byte.
        """
        return [name for name, _ in sorted(self._library.get_vocab().items(), key=lambda e: e[1])]

    def with_tags(self, names: Iterable[str]) -> "Tokenizer":
        """A copy with one more control symbol for each name. No text produces these symbols."""
        copy = Tokenizer.from_json(self.to_json())
        copy._library.add_special_tokens([TAG.format(name) for name in names])
        return copy

    def with_tag(self, tag: str) -> "Tokenizer":
        """A copy that puts a tag before every text. Raises: ConfigError if the tag is unknown."""
        copy = Tokenizer.from_json(self.to_json())
        copy.prefix = [self.tag_id(tag)]
        return copy

    def tag_id(self, name: str) -> int:
        """The id of a tag. Raises: ConfigError if the name is unknown."""
        tag = self._library.token_to_id(TAG.format(name))
        if tag is None:
            raise ConfigError(f"there is no tag {name!r} in the training corpora")
        return tag

    def pieces(self, text: str) -> list[str]:
        """The text of each piece, taken from its span, as a label."""
        return [text[start:end] for start, end in self.spans(text)]


class Tokenizers(NamedTuple):
    """The tokenizer for each side; the same object if both sides share one."""

    source: Tokenizer
    target: Tokenizer
