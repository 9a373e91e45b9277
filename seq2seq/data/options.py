"""The options of a run's data."""

from dataclasses import dataclass
from typing import Any, Literal

from seq2seq.base.errors import ConfigError
from seq2seq.base.options import REQUIRED, option
from seq2seq.data.augment.augmented_text import check_augment
from seq2seq.data.batches.stages import check_stages
from seq2seq.data.corpus.component_options import check_languages, check_spec
from seq2seq.data.corpus.groups import Groups


@dataclass(frozen=True)
class DataOptions:
    """The text of a run, and the size of its batches: the keys of `conf/data/*.yaml`.

    A suffix may be the number of a column; it is converted to a string. The `augment` of one of
    several corpora overrides entries of the common `augment`.

    Raises: ConfigError for a value out of range.
    """

    name: str = option(REQUIRED, "name of the corpus")
    source: str | int | None = option(
        REQUIRED, "suffix of the source files; of a table, a column or key"
    )
    target: str | int | None = option(REQUIRED, "suffix of the target files, likewise")
    train: str | list[str] | dict[str, Any] = option(
        REQUIRED, "prefix of two files, a table, [source, target], or {NAME: {path, weight, tag}}"
    )
    valid: str | list[str] | dict[str, Any] = option(
        REQUIRED, "likewise; the best checkpoint is chosen by it"
    )
    test: str | list[str] | dict[str, Any] | None = option(
        None, "likewise, for `seq2seq evaluate`; pairs that are also in train are counted"
    )
    max_length: int = option(256, "pieces, eos included; longer pairs are left out and counted")
    max_tokens: int = option(4096, "padded pieces of a batch on either side, over all devices")
    cache: str = option("runs/cache", "folder of encoded corpora and tokenizers, keyed by content")
    groups: Groups = option(
        "none", "none | words | sentences: groups of source tokens, for hierarchical_context"
    )
    sentence_separator: str | None = option(
        None, "with groups=sentences: a sentence ends after a piece that contains it, such as ."
    )
    languages: list[str] | None = option(
        None, "[en,de,fr]: one model for several languages; suffixes, columns or keys"
    )
    language_tags: Literal["target", "both"] = option(
        "target",
        "target: a tag before each source names the target language; "
        "both: each side begins with the tag of its language",
    )
    temperature: float = option(
        1.0, "corpora are sampled by size to the power 1/temperature; 1: by size", minimum=1
    )
    context: int = option(
        0,
        "put up to this many preceding sentences of the document before each source",
        minimum=0,
        maximum=100,
    )
    both_directions: bool = option(
        False, "true: train on each pair reversed as well; tags tell the directions apart"
    )
    augment: dict[str, Any] = option(
        dict, "changes of training pairs, drawn again in each epoch (docs/data.md)"
    )
    stages: list[Any] | None = option(
        None, "weights that change: [{until: UPDATE, weights: {NAME: 1}}, {weights: {NAME: 1}}]"
    )

    def __post_init__(self) -> None:
        languages = self.languages or []
        for side in ("source", "target"):
            value = getattr(self, side)
            if value is None and self.languages is not None:
                continue  # texts have to name their languages
            suffix = "" if value is None else str(value)
            object.__setattr__(self, side, suffix)
            if not suffix or suffix.startswith("."):
                raise ConfigError(
                    f"data.{side}={suffix!r} should be the suffix of one language's files, "
                    f"without the dot, or a column: data.{side}=de"
                )
            if languages and suffix not in languages:
                known = f"data.languages={','.join(languages)}"
                raise ConfigError(f"data.{side}={suffix} should be one of {known}, or null")
        specs = {f"data.{part}": getattr(self, part) for part in ("train", "valid", "test")}
        for what, spec in specs.items():
            check_spec(spec, what, languages)
        check_augment(self.augment, "data.augment")
        for name, options in self.train.items() if isinstance(self.train, dict) else ():
            rates = {**self.augment, **options.get("augment", {})}
            check_augment(rates, f"data.train.{name}.augment")
        if self.stages is not None:
            check_stages(self.stages, self.train)
        if self.both_directions:
            sides = str(self.source), str(self.target)
            check_languages(sides, specs, "data.both_directions=true")
        if self.languages is not None:
            check_languages(languages, specs, f"data.languages={','.join(languages)}")
            if self.both_directions:
                raise ConfigError("data.both_directions=true: leave it out with data.languages")
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
        if self.groups == "sentences" and not self.sentence_separator:
            raise ConfigError(
                "data.groups=sentences needs a mark that ends them: data.sentence_separator=."
            )
        if self.groups != "sentences" and self.sentence_separator is not None:
            raise ConfigError(
                f"data.sentence_separator={self.sentence_separator!r} has no effect with "
                f"data.groups={self.groups}: data.groups=sentences, or data.sentence_separator=null"
            )
