"""All kinds of tokenizers, by name in conf/tokenizer."""

from collections.abc import Callable, Mapping
from typing import Any

from seq2seq.base.errors import ConfigError
from seq2seq.base.plugins import PluginTable
from seq2seq.text.tokenization.bpe import ByteLevelBPE, SubwordNMT
from seq2seq.text.tokenization.recipe import Recipe
from seq2seq.text.tokenization.sentencepiece import SentencePiece
from seq2seq.text.tokenization.unigram import Unigram
from seq2seq.text.tokenization.words import CharacterLevel, WordLevel

TOKENIZERS: PluginTable[Callable[..., Recipe]] = PluginTable(
    "tokenizer",
    {
        "bpe": ByteLevelBPE,
        "unigram": Unigram,
        "word": WordLevel,
        "char": CharacterLevel,
        "sentencepiece": SentencePiece,
        "subword_nmt": SubwordNMT,
    },
    lambda entry: isinstance(entry, type) and issubclass(entry, Recipe),
    "a class that derives from seq2seq.text.tokenization.recipe.Recipe",
)


def build_recipe(options: Mapping[str, Any]) -> Recipe:
    """The recipe for options from conf/tokenizer. Raises: ConfigError if they are invalid."""
    if "name" not in options:
        known = ", ".join(sorted(TOKENIZERS.list_names()))
        raise ConfigError(f"tokenizer.name is missing. Known: {known}")
    build: Callable[[], Recipe] = TOKENIZERS.configure(options, "tokenizer")
    return build()
