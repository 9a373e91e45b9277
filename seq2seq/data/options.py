"""The options of a run's data."""

from dataclasses import dataclass, field
from typing import Any

from seq2seq.base.errors import ConfigError
from seq2seq.data.augment.augmented_text import check_augment
from seq2seq.data.batches.stages import check_stages
from seq2seq.data.corpus.groups import Groups
from seq2seq.data.corpus.mixture import check_directions, check_spec


@dataclass(frozen=True)
class DataOptions:
    """The text of a run, and how much of it a step holds: the keys of `conf/data/*.yaml`.

    Attributes:
        name: of the corpus.
        source: suffix of the source language's files, or its column in a .tsv or .jsonl file: a
            name, or a number from 1.
        target: of the target language, likewise.
        train: prefix of the training files, PREFIX.SUFFIX or PREFIX.SUFFIX.gz; or one .tsv or
            .jsonl file, plain or .gz; or a list of two paths, source then target; relative to the
            current folder. Or several of these by name: {NAME: {path, weight, tag, augment}}.
        valid: the validation files, likewise, with path and tag alone.
        test: the test files, likewise, if there are any.
        max_length: maximum pieces of a sentence, EOS included; longer pairs are left out.
        max_tokens: padded tokens of a global batch on either side.
        cache: folder for tokenizers and encoded corpora.
        groups: groups of source tokens, for mechanisms that read them: the tokens of a word, or of
            a word and of a sentence.
        sentence_separator: a sentence ends after a piece that contains it.
        both_directions: train on each pair reversed as well; the tag before a source is the
            language that it is translated into.
        augment: probabilities with which a training pair is changed, see `AugmentOptions`; those
            of a corpus of several are added to them.
        stages: weights of the corpora that change with the update, see `Stage`.

    Raises: ConfigError for a value out of range.
    """

    name: str
    source: str | int
    target: str | int
    train: str | list[str] | dict[str, Any]
    valid: str | list[str] | dict[str, Any]
    test: str | list[str] | dict[str, Any] | None = None
    max_length: int = 256
    max_tokens: int = 4096
    cache: str = "runs/cache"
    groups: Groups = "none"
    sentence_separator: str | None = None
    both_directions: bool = False
    augment: dict[str, Any] = field(default_factory=dict)
    stages: list[Any] | None = None

    def __post_init__(self) -> None:
        for option in ("source", "target"):
            suffix = str(getattr(self, option))
            # The number of a column is typed as an integer, and used as a string.
            object.__setattr__(self, option, suffix)
            if not suffix or suffix.startswith("."):
                raise ConfigError(
                    f"data.{option}={suffix!r} should be the suffix of one language's files, "
                    f"without the dot, or a column: data.{option}=de"
                )
        specs = {f"data.{part}": getattr(self, part) for part in ("train", "valid", "test")}
        for what, spec in specs.items():
            check_spec(spec, what)
        check_augment(self.augment, "data.augment")
        for name, options in self.train.items() if isinstance(self.train, dict) else ():
            rates = {**self.augment, **options.get("augment", {})}
            check_augment(rates, f"data.train.{name}.augment")
        if self.stages is not None:
            check_stages(self.stages, self.train)
        if self.both_directions:
            check_directions(specs, str(self.source), str(self.target))
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
        check_separator(self.groups, self.sentence_separator)


def check_separator(groups: Groups, separator: str | None) -> None:
    """Raises: ConfigError for sentences without a separator, and a separator without sentences."""
    if groups == "sentences" and not separator:
        raise ConfigError(
            "data.groups=sentences needs to know what ends one: data.sentence_separator=."
        )
    if groups != "sentences" and separator is not None:
        raise ConfigError(
            f"data.sentence_separator={separator!r} has no effect with data.groups={groups}: "
            "data.groups=sentences, or data.sentence_separator=null"
        )
