"""Recipes that read a file instead of learning from text."""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from seq2seq.errors import ConfigError
from seq2seq.tokenization.recipe import Recipe

LARGEST = 2**24  # bytes of a file; the largest in use have 5 million


@dataclass(frozen=True, kw_only=True)
class PretrainedTokenizer(Recipe):
    """Base class: the pieces are those of one file, or of one for each language.

    Args:
        path: of a file for both languages; or of two, source then target.

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
