"""Unigram language model over characters, with bytes for unknown ones.

Kudo 2018, arXiv:1804.10959; the pieces are those of SentencePiece, Kudo and Richardson 2018.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import NAMES
from seq2seq.text.tokenization.recipe import SubwordRecipe
from seq2seq.text.tokenization.tokenizer import Tokenizer

# A piece that begins a word begins with this mark, as in SentencePiece.
MARK = "▁"
# Two noncharacters, which Unicode reserves for internal use: they replace what would otherwise be
# read as a symbol ("<", of "<s>" and "<0x41>") or as the mark.
LESS, LITERAL_MARK, FOREIGN = "\ufdd0", "\ufdd1", "\ufffd"
# Words, each with the space before it as a mark, and the way back to text.
WORDS = pre_tokenizers.Metaspace(MARK, prepend_scheme="never")
JOINED_WORDS = [
    decoders.Fuse(),
    decoders.Replace(MARK, " "),
    decoders.Strip(" ", 1, 0),  # which the normalizer puts before every text
    decoders.Replace(LITERAL_MARK, MARK),
]
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
TOO_FEW = "not large enough to contain all chars"  # message of the library


@dataclass(frozen=True, kw_only=True)
class Unigram(SubwordRecipe):
    """A unigram model: of many candidates, the pieces that explain the text best.

    The text is kept as it is: decoding gives back what was encoded, except that the noncharacters
    U+FDD0 and U+FDD1 become U+FFFD.

    Args:
        vocab_size: ids in all: 4 control symbols, 256 bytes, every character of the text, and
            longer pieces.
        joint: one tokenizer for both languages (True), or one for each.
        normalize: None keeps the text as it is; "nfc" first writes accents in composed form.
        max_token_length: characters in the longest piece.
        isolate_cjk: split at every Han, Hiragana and Katakana character first.

    Raises: ConfigError for a value out of range.
    """

    others = "pieces of the text"

    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """Learn the pieces from text.

        The library breaks ties between candidates at random, so the same lines may give tokenizers
        that differ in such pieces.

        Raises: ConfigError if the text has more characters than fit into the vocabulary.
        """
        library = tokenizers.Tokenizer(models.Unigram())
        library.normalizer = self.normalizer(
            normalizers.Replace(Regex(f"[{LESS}{LITERAL_MARK}]"), FOREIGN),
            # Then no piece of a text contains "<", so none is a symbol or a byte.
            normalizers.Replace("<", LESS),
            normalizers.Replace(MARK, LITERAL_MARK),
            # Then a word is the same piece at the start of a text and inside it.
            normalizers.Prepend(" "),
        )
        library.pre_tokenizer = self.splitter(WORDS)
        # The order matters: bytes must become characters before characters become text.
        less = decoders.Replace(LESS, "<")
        library.decoder = decoders.Sequence([decoders.ByteFallback(), *JOINED_WORDS, less])
        trainer = trainers.UnigramTrainer(
            vocab_size=self.vocab_size,
            special_tokens=[*NAMES, *BYTES],
            unk_token=NAMES[3],
            max_piece_length=self.max_token_length,
            show_progress=False,
        )
        try:
            library.train_from_iterator(lines, trainer)
            is_too_small = library.get_vocab_size() > self.vocab_size
        except Exception as error:  # the library raises nothing narrower
            if TOO_FEW not in str(error):
                raise
            is_too_small = True
        if is_too_small:
            raise ConfigError(
                f"tokenizer.vocab_size={self.vocab_size} is too small: {len(NAMES)} control "
                f"symbols, {len(BYTES)} bytes and the different characters of this text are more "
                "than that. A unigram model keeps every character: type a larger "
                "tokenizer.vocab_size, or tokenizer=bpe, which does not"
            )
        return Tokenizer(with_byte_fallback(library))


def with_byte_fallback(library: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The trained tokenizer, which spells unknown characters in bytes.

    The trainer has bytes only as special tokens, which decoding would skip. Its pieces of equal
    scores come in random order; here they are sorted.
    """
    description = json.loads(library.to_str())
    kept = [token for token in description["added_tokens"] if token["content"] in NAMES]
    description["added_tokens"] = kept
    model = description["model"]
    first = len(NAMES) + len(BYTES)
    learnt = [(piece, round(score, 6)) for piece, score in model["vocab"][first:]]
    learnt.sort(key=lambda entry: (-entry[1], entry[0]))
    model["vocab"][first:] = learnt
    model["byte_fallback"] = True
    return tokenizers.Tokenizer.from_str(json.dumps(description))
