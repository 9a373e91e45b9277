"""Text to piece ids and back."""

from collections.abc import Iterable
from typing import NamedTuple

import tokenizers

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.symbols import BOS, EOS, NAMES, PAD, UNK

# The symbol of a tag. No kind of tokenizer has a plain space inside a piece, so that no piece has
# the name of a tag.
TAG = "<tag {}>"
UNSEEN = "\U0010fffd"  # a private character: what encodes it has all that unknown text needs


class Tokenizer:
    """Segments text into pieces with ids, and joins pieces to text again.

    The four control symbols have the ids of `seq2seq.base.symbols`. No text produces them, not even
    one that contains "<s>", and `decode_batch` never writes them.

    Raises: DataError if the library's tokenizer has other ids for the control symbols, ids that are
        not 0 to `size` - 1, or pads or cuts what it encodes.
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
                "the tokenizer pads or cuts texts, which should have all of their pieces"
            )
        # Without this, "<s>" in a sentence becomes the symbol. The library does not save it.
        library.encode_special_tokens = True
        self._library = library
        self.prefix: list[int] = []  # the tag before every text, if there is one

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """The tokenizer that `to_json` described. Raises: DataError for any other text."""
        try:
            library = tokenizers.Tokenizer.from_str(text)
            library.encode(UNSEEN)
        except Exception as error:  # the library raises nothing narrower
            raise DataError(f"not the description of a tokenizer: {error}") from error
        return cls(library)

    def to_json(self) -> str:
        """A description from which `from_json` makes an equal tokenizer."""
        return self._library.to_str()

    @property
    def size(self) -> int:
        """Size of the vocabulary, control symbols included."""
        return self._library.get_vocab_size()

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, after the tag if there is one, without BOS and EOS."""
        encodings = self._library.encode_batch_fast(texts, add_special_tokens=False)
        return [[*self.prefix, *encoding.ids] for encoding in encodings]

    def decode_batch(self, rows: list[list[int]]) -> list[str]:
        """The text of each row up to its first EOS, other control symbols skipped.

        Bytes that do not form a character, which a model may produce, become U+FFFD.
        """
        cut = [row[: row.index(EOS)] if EOS in row else row for row in rows]
        return self._library.decode_batch(cut, skip_special_tokens=True)

    def texts(self) -> list[str]:
        """The text that each id adds after another piece: none for control symbols and tags.

        A part of a character adds U+FFFD.
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
        """The span of each piece in the text, as (first character, character after the last); a tag
        has none.

        Leading white space is not part of a span, unless the piece is nothing else. The pieces of
        one character (a Chinese one can need three) all have the span of that character.
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
        """The name of each id, all different: the library's tokens. In byte-level pieces, every
        byte is written as a letter.
        """
        return [name for name, _ in sorted(self._library.get_vocab().items(), key=lambda e: e[1])]

    def with_tags(self, names: Iterable[str]) -> "Tokenizer":
        """A copy with one more control symbol for each name; no text produces them."""
        copy = Tokenizer.from_json(self.to_json())
        copy._library.add_special_tokens([TAG.format(name) for name in names])
        return copy

    def with_tag(self, tag: str) -> "Tokenizer":
        """A copy that puts a tag before every text. Raises: ConfigError as `tag_id`."""
        copy = Tokenizer.from_json(self.to_json())
        copy.prefix = [self.tag_id(tag)]
        return copy

    def tag_id(self, name: str) -> int:
        """The id of a tag. Raises: ConfigError for an unknown name."""
        tag = self._library.token_to_id(TAG.format(name))
        if tag is None:
            raise ConfigError(f"there is no tag {name!r} among those of the training corpora")
        return tag

    def pieces(self, text: str) -> list[str]:
        """The text of each piece, by `spans`: a label for every id."""
        return [text[start:end] for start, end in self.spans(text)]


class Tokenizers(NamedTuple):
    """The tokenizer of each side; the same object twice if the sides share it."""

    source: Tokenizer
    target: Tokenizer
