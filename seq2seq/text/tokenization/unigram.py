"""Unigram language model over characters, with bytes for unknown characters.

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

# The mark at the start of pieces that begin a word, as in SentencePiece.
MARK = "▁"
# LESS and LITERAL_MARK are noncharacters, which Unicode reserves for internal use. In a text, they
# replace "<", so that it contains no symbol such as "<s>" or "<0x41>", and the mark. FOREIGN takes
# the place of noncharacters that are already in the text.
LESS, LITERAL_MARK, FOREIGN = "\ufdd0", "\ufdd1", "\ufffd"
# Splits text into words, each with a mark for the space before it; and joins words to text again.
WORDS = pre_tokenizers.Metaspace(MARK, prepend_scheme="never")
JOINED_WORDS = [
    decoders.Fuse(),
    decoders.Replace(MARK, " "),
    decoders.Strip(" ", 1, 0),  # the space that the normalizer puts before every text
    decoders.Replace(LITERAL_MARK, MARK),
]
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
TOO_FEW = "not large enough to contain all chars"  # part of the library's message


@dataclass(frozen=True, kw_only=True)
class Unigram(SubwordRecipe):
    """A unigram model: chooses, among many candidates, the pieces that explain the text best.

    Decoding restores exactly what was encoded, except that the noncharacters U+FDD0 and U+FDD1
    become U+FFFD.

    Args:
        vocab_size: total number of ids: 4 control symbols, 256 bytes, every character of the text,
            and longer pieces.
        joint: one tokenizer for both languages (True), or one for each.
        normalize: None leaves the text unchanged; "nfc" first composes accented characters.
        max_token_length: characters in the longest piece.
        isolate_cjk: whether to split at every Han, Hiragana and Katakana character first.

    Raises: ConfigError for a value out of range.
    """

    others = "pieces of the text"

    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """Learn the pieces from text.

        The library breaks ties between candidates at random, so tokenizers learnt from the same
        lines may differ in a few pieces.

        Raises: ConfigError if the text has more characters than fit into the vocabulary.
        """
        library = tokenizers.Tokenizer(models.Unigram())
        library.normalizer = self.normalizer(
            normalizers.Replace(Regex(f"[{LESS}{LITERAL_MARK}]"), FOREIGN),
            # So that no piece of a text contains "<", and none looks like a symbol or a byte.
            normalizers.Replace("<", LESS),
            normalizers.Replace(MARK, LITERAL_MARK),
            # So that a word is the same piece at the start of a text as elsewhere.
            normalizers.Prepend(" "),
        )
        library.pre_tokenizer = self.splitter(WORDS)
        # The order matters: bytes must be joined to characters before characters are replaced.
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
                f"symbols, {len(BYTES)} bytes and all characters in this text need more ids than "
                "that. A unigram model keeps every character: type a larger "
                "tokenizer.vocab_size, or tokenizer=bpe, which does not"
            )
        return Tokenizer(with_byte_fallback(library))


def with_byte_fallback(library: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Make a trained tokenizer spell unknown characters in bytes.

    The trainer treats bytes as special tokens, which decoding would skip. It also returns pieces
    with equal scores in random order; they are sorted here.
    """
    description = json.loads(library.to_str())
    kept = [token for token in description["added_tokens"] if token["content"] in NAMES]
    description["added_tokens"] = kept
    model = description["model"]
    first = len(NAMES) + len(BYTES)
    learnt = [(piece, round(score, 6)) for piece, score in model["vocab"][first:]]
    model["vocab"][first:] = sorted(learnt, key=lambda entry: (-entry[1], entry[0]))
    model["byte_fallback"] = True
    return tokenizers.Tokenizer.from_str(json.dumps(description))
