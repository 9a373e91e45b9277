"""The corpora that make up a part of the data (train, valid, test)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_options, matches
from seq2seq.data.text.formats import TextFormat, find_format

Spec = str | list[str] | dict[str, Any]

TAG_NAME = re.compile(r"[\w-]+")
EXAMPLE = "{news: {path: my/news}, talks: {path: my/talks, weight: 2}}"


@dataclass(frozen=True)
class Component:
    """One corpus of a part.

    Attributes:
        name: name in messages; empty for the only corpus.
        text: pairs of the corpus.
        weight: how often an epoch samples each pair, on average.
        tag: symbol put before each source, if any.
        augment: probabilities of changes to its pairs in training, see `AugmentOptions`.
        is_reversed: True if these are the pairs of another component, source and target swapped.
    """

    name: str
    text: TextFormat
    weight: float = 1.0
    tag: str | None = None
    augment: Mapping[str, float] = field(default_factory=dict)
    is_reversed: bool = False

    @property
    def is_augmented(self) -> bool:
        """True if any of its pairs are changed in training."""
        return any(self.augment.values())

    @property
    def corpus(self) -> str:
        """The name of the corpus in the option; a reversed component has its original's name."""
        return self.name.removesuffix("reversed").rstrip() if self.is_reversed else self.name


@dataclass(frozen=True)
class ComponentOptions:
    """The options of one corpus of several; see `Component`."""

    path: str | list[str]
    weight: float = 1.0
    tag: str | None = None
    augment: dict[str, Any] = field(default_factory=dict)


def check_spec(spec: Spec, what: str) -> None:
    """Check an option that names several corpora before any file is opened.

    Raises: ConfigError naming the corpus and its invalid option.
    """
    if not isinstance(spec, Mapping):
        return
    if not spec:
        raise ConfigError(f"{what} names no corpus; expected {what}={EXAMPLE}")
    for name, options in spec.items():
        where = f"{what}.{name}"
        if not isinstance(options, Mapping) or "path" not in options:
            raise ConfigError(f"{where}={options!r} should have a path: {what}={EXAMPLE}")
        check_options(ComponentOptions, options, where)
        weight, tag = options.get("weight", 1), options.get("tag")
        check_weight(weight, f"{where}.weight", where)
        if "weight" in options and what != "data.train":
            raise ConfigError(
                f"{where}.weight={weight!r}: only training corpora have weights; leave it out"
            )
        if "augment" in options and what != "data.train":
            raise ConfigError(f"{where}.augment: only training text is augmented; leave it out")
        if tag is not None and not TAG_NAME.fullmatch(tag):
            raise ConfigError(
                f"{where}.tag={tag!r} should be a word of letters, digits, _ or -: {where}.tag=de"
            )


def check_weight(weight: Any, what: str, corpus: str) -> None:
    """Check the weight of a corpus. Raises: ConfigError if it is not a valid weight."""
    if not (matches(weight, float) and 0 < weight <= 1000):
        raise ConfigError(
            f"{what}={weight!r} should be a number above 0, at most 1000: how often an epoch sees "
            f"a pair. To leave a corpus out, leave out {corpus}"
        )


def find_components(spec: Spec, source: str, target: str, what: str) -> list[Component]:
    """The corpora that an option names; a prefix or a file is one corpus without a name.

    Args: as `find_format`.

    Raises: DataError if a file is missing; ConfigError if a list does not hold two paths.
    """
    if not isinstance(spec, dict):
        return [Component("", find_format(spec, source, target, what))]
    return [
        Component(
            str(name),
            find_format(options["path"], source, target, f"{what}.{name}.path"),
            float(options.get("weight", 1)),
            options.get("tag"),
            options.get("augment", {}),
        )
        for name, options in spec.items()
    ]


def check_directions(specs: Mapping[str, Spec | None], source: str, target: str) -> None:
    """Check corpora that are used in both directions, given by option.

    Raises: ConfigError if a language cannot be a tag, or a corpus has its own tag.
    """
    for option, language in (("data.source", source), ("data.target", target)):
        if not TAG_NAME.fullmatch(language):
            raise ConfigError(
                f"data.both_directions=true makes tags of the languages, and {option}={language!r} "
                "is not a word of letters, digits, _ or -: rename the column or the files"
            )
    if source == target:
        raise ConfigError(
            f"data.both_directions=true needs two languages; source and target are {source}"
        )
    for what, spec in specs.items():
        for name, options in spec.items() if isinstance(spec, Mapping) else ():
            if options.get("tag") is not None:
                raise ConfigError(
                    f"{what}.{name}.tag={options['tag']}: data.both_directions=true tags each "
                    f"source with the language that it is translated into. Leave {what}.{name}.tag "
                    "out, or data.both_directions=false"
                )


def add_directions(
    components: list[Component], spec: Spec, source: str, target: str, what: str
) -> list[Component]:
    """The components tagged with their target language, followed by each of them reversed.

    Args:
        components: result of `find_components` with the same other arguments.
    """
    back = find_components(reverse_paths(spec), target, source, what)
    return [
        *(replace(each, tag=target) for each in components),
        *(
            replace(each, name=f"{each.name} reversed".strip(), tag=source, is_reversed=True)
            for each in back
        ),
    ]


def reverse_paths(spec: Spec) -> Spec:
    """A spec with the two paths of each list swapped; other forms depend on source and target."""
    if isinstance(spec, dict):
        return {
            name: {**options, "path": reverse_paths(options["path"])}
            for name, options in spec.items()
        }
    return spec[::-1] if isinstance(spec, list) else spec
