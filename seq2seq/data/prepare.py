"""From the options of a run to what it trains on: checked files, tokenizers, encoded corpora."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers as library

from seq2seq.data.cache import cached_folder, digest
from seq2seq.data.corpus import Corpus, encode_corpus
from seq2seq.data.recipes import build_recipe
from seq2seq.data.text import MissingFileError, check_parallel, parallel_paths, read_lines
from seq2seq.data.tokenizer import Recipe, Tokenizer, Tokenizers
from seq2seq.errors import ConfigError, DataError

_WHERE_TO_GET = {
    "demo": "data/demo is in the repository, not in the package: clone it and run from its root.",
    "multi30k": "To download it: python scripts/prepare_multi30k.py",
}


@dataclass(frozen=True)
class DataOptions:
    """Where a run's text is and how much of it a step may hold: the keys of `conf/data/*.yaml`.

    Attributes:
        name: what the corpus is called.
        source: suffix of the source language's files.
        target: suffix of the target language's files.
        train: prefix of the training files, PREFIX.SUFFIX or PREFIX.SUFFIX.gz, or a list of two
            paths, source then target; relative to the current folder.
        valid: the validation files, likewise.
        test: the test files, likewise, if there are any.
        max_length: most pieces of a sentence, its end symbol included; longer pairs are left out.
        max_tokens: padded tokens of a global batch on either side.
        cache: folder for tokenizers and encoded corpora.

    Raises: ConfigError for a value out of range.
    """

    name: str
    source: str
    target: str
    train: str | list[str]
    valid: str | list[str]
    test: str | list[str] | None = None
    max_length: int = 256
    max_tokens: int = 4096
    cache: str = "runs/cache"

    def __post_init__(self) -> None:
        for option in ("source", "target"):
            suffix = getattr(self, option)
            if not suffix or suffix.startswith("."):
                raise ConfigError(
                    f"data.{option}={suffix!r} should be what the names of one language's files "
                    f"end in, without the dot: data.{option}=de"
                )
        if self.max_length < 2:
            raise ConfigError(
                f"data.max_length={self.max_length} leaves no room for a piece and the end symbol: "
                "data.max_length=256"
            )
        if self.max_tokens < self.max_length:
            raise ConfigError(
                f"data.max_tokens={self.max_tokens} is less than data.max_length="
                f"{self.max_length}, so the longest sentences would fit no batch; type "
                f"data.max_tokens={self.max_length} or more"
            )


class Prepared(NamedTuple):
    """What a run trains on, and in `report` a few sentences that say so."""

    train: Corpus
    valid: Corpus
    tokenizers: Tokenizers
    report: tuple[str, ...]


def prepare(data: DataOptions, tokenizer: Mapping[str, Any]) -> Prepared:
    """Check the files, learn the tokenizers on the training text, encode both corpora.

    Options are checked before any file is read, and every file, those of the test part included,
    before anything is computed. What an earlier run computed from the same contents is reused.

    Args:
        data: where the text is.
        tokenizer: `name`, an entry of TOKENIZERS, and the options of that entry.

    Raises: ConfigError for an option; DataError for a file, naming it and the line.
    """
    recipe = build_recipe(tokenizer)
    paths = _checked_paths(data)
    cache = Path(data.cache).expanduser()
    tokenizers = _tokenizers(recipe, paths["train"], cache)
    corpora = {
        part: encode_corpus(*paths[part], tokenizers, max_length=data.max_length, cache_dir=cache)
        for part in ("train", "valid")
    }
    report = [f"{part}: {corpus.report}" for part, corpus in corpora.items()]
    sizes = f"{tokenizers.source.size:,} pieces for both languages"
    if not recipe.joint:
        sizes = f"{tokenizers.source.size:,} source and {tokenizers.target.size:,} target pieces"
    return Prepared(
        corpora["train"], corpora["valid"], tokenizers, (*report, f"tokenizer: {sizes}")
    )


def _checked_paths(data: DataOptions) -> dict[str, tuple[Path, Path]]:
    """The two files of each part, all found before any is read to its end."""
    specs = {"train": data.train, "valid": data.valid, "test": data.test}
    try:
        paths = {
            part: parallel_paths(spec, data.source, data.target, f"data.{part}")
            for part, spec in specs.items()
            if spec is not None
        }
    except MissingFileError as error:
        hint = _WHERE_TO_GET.get(data.name, "")
        raise MissingFileError(f"{error} {hint}".strip()) from error
    for pair in paths.values():
        check_parallel(*pair)
    return paths


def _tokenizers(recipe: Recipe, paths: tuple[Path, Path], cache: Path) -> Tokenizers:
    """Learn one tokenizer from both files, or one from each, or find them learnt already."""
    sides = {"joint": paths} if recipe.joint else {"source": paths[:1], "target": paths[1:]}

    def write(folder: Path) -> None:
        for side, files in sides.items():
            learnt = recipe.train(chain.from_iterable(map(read_lines, files)))
            (folder / f"{side}.json").write_text(learnt.to_json(), encoding="utf-8")

    def whole(folder: Path) -> bool:
        try:
            return all(_read(folder / f"{side}.json").size for side in sides)
        except (OSError, ValueError, DataError):
            return False

    name = f"tokenizer-{digest([library.__version__, repr(recipe)], paths)}"
    folder = cached_folder(cache, name, whole, write)
    found = [_read(folder / f"{side}.json") for side in sides]
    return Tokenizers(found[0], found[-1])


def _read(path: Path) -> Tokenizer:
    return Tokenizer.from_json(path.read_text(encoding="utf-8"))
