"""All ways to learn a tokenizer, by the name they have in conf/tokenizer."""

from collections.abc import Callable, Mapping
from typing import Any

from seq2seq.data.tokenizer import ByteLevelBPE, Recipe
from seq2seq.data.unigram import Unigram
from seq2seq.data.words import Character, Word
from seq2seq.errors import ConfigError
from seq2seq.tables import Table, check_options

TOKENIZERS: Table[Callable[..., Recipe]] = Table(
    "tokenizer", {"bpe": ByteLevelBPE, "unigram": Unigram, "word": Word, "char": Character}
)


def build_recipe(options: Mapping[str, Any]) -> Recipe:
    """The recipe that a node of conf/tokenizer describes. Raises: ConfigError."""
    if "name" not in options:
        raise ConfigError(f"tokenizer.name is missing. Known: {', '.join(sorted(TOKENIZERS))}")
    recipe = TOKENIZERS.find(options["name"])
    own = {name: value for name, value in options.items() if name != "name"}
    check_options(recipe, own, "tokenizer")
    return recipe(**own)
