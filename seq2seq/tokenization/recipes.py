"""All kinds of tokenizers, by their names in conf/tokenizer, and the text they are learnt from."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from seq2seq.errors import ConfigError
from seq2seq.tables import Table, check_options
from seq2seq.tokenization.sentencepiece import SentencePiece
from seq2seq.tokenization.subword_nmt import SubwordNMT
from seq2seq.tokenization.tokenizer import ByteLevelBPE, Recipe
from seq2seq.tokenization.unigram import Unigram
from seq2seq.tokenization.words import Character, WordRecipe

TOKENIZERS: Table[Callable[..., Recipe]] = Table(
    "tokenizer",
    {
        "bpe": ByteLevelBPE,
        "unigram": Unigram,
        "word": WordRecipe,
        "char": Character,
        # Learnt elsewhere.
        "sentencepiece": SentencePiece,
        "subword_nmt": SubwordNMT,
    },
)


def build_recipe(options: Mapping[str, Any]) -> Recipe:
    """The recipe of a node of conf/tokenizer. Raises: ConfigError."""
    if "name" not in options:
        raise ConfigError(f"tokenizer.name is missing. Known: {', '.join(sorted(TOKENIZERS))}")
    recipe = TOKENIZERS.find(options["name"])
    arguments = {name: value for name, value in options.items() if name != "name"}
    check_options(recipe, arguments, "tokenizer")
    return recipe(**arguments)


# Far above the average length of a piece: a line with more characters than this for every piece
# allowed is not worth the time, whatever the tokenizer.
CHARACTERS_PER_PIECE = 20
# The time to learn merges grows superlinearly in the longest run of characters without a space.
LONGEST_PART = 1000


def learnable(lines: Iterable[str], max_length: int) -> Iterator[str]:
    """The text that a tokenizer should be learnt from.

    A line of more than 20 * `max_length` characters is left out: hardly any tokenizer makes at most
    `max_length` pieces of it. Lines of more than 1,000 characters are cut into parts, before spaces
    if possible; nothing is lost between them. If all lines are too long, the beginning of the first
    is used, because a tokenizer is needed to decide which pairs are kept.

    Args:
        lines: of one or both sides of the training text.
        max_length: maximum pieces of a sentence, EOS included.
    """
    instead, given = "", False
    for line in lines:
        if len(line) <= CHARACTERS_PER_PIECE * max_length:
            given = given or bool(line.strip())
            yield from parts(line)
        else:
            instead = instead or line[:LONGEST_PART]
    if not given and instead:
        yield instead


def parts(line: str) -> Iterator[str]:
    """A line in parts of at most 1,000 characters, as long as possible, cut before spaces."""
    start = 0
    while len(line) - start > LONGEST_PART:
        # Not at the start itself: the part would be empty.
        space = line.rfind(" ", start + 1, start + LONGEST_PART + 1)
        end = space if space > start else start + LONGEST_PART
        yield line[start:end]
        start = end
    yield line[start:]
