"""The options of the corpora of a part, checked before any file is opened."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_options, matches
from seq2seq.data.corpus.mixture import Spec

TAG_NAME = re.compile(r"[\w-]+")
EXAMPLE = "{news: {path: my/news}, talks: {path: my/talks, weight: 2}}"


@dataclass(frozen=True)
class ComponentOptions:
    """The options of one corpus of several; see `Component`.

    A corpus is used in all directions between its `languages` or, without `both_directions`, only
    from earlier into later ones.
    """

    path: str | list[str]
    weight: float = 1.0
    tag: str | None = None
    augment: dict[str, Any] = field(default_factory=dict)
    languages: list[str] | None = None
    both_directions: bool = True


def check_spec(spec: Spec, what: str, languages: Sequence[str]) -> None:
    """Check an option that names corpora.

    Args:
        spec: the value of the option.
        what: its name, such as `data.train`.
        languages: those of `data.languages`, if there are several directions.

    Raises: ConfigError naming the corpus and its invalid option.
    """
    if not isinstance(spec, Mapping):
        check_paths(spec, what, languages)
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
        for option in {"languages", "both_directions"} & options.keys() if not languages else ():
            raise ConfigError(f"{where}.{option} needs data.languages=[en,de,fr], all languages")
        mine = options.get("languages", languages)
        if languages and (len(set(mine)) < max(2, len(mine)) or not {*mine} <= {*languages}):
            raise ConfigError(
                f"{where}.languages={','.join(mine)} should be two or more different languages of "
                f"data.languages={','.join(languages)}"
            )
        check_paths(options["path"], f"{where}.path", mine)


def check_weight(weight: Any, what: str, corpus: str) -> None:
    """Check the weight of a corpus. Raises: ConfigError if it is not a valid weight."""
    if not (matches(weight, float) and 0 < weight <= 1000):
        raise ConfigError(
            f"{what}={weight!r} should be a number above 0, at most 1000: how often an epoch sees "
            f"a pair. To leave a corpus out, leave out {corpus}"
        )


def check_paths(path: str | list[str], what: str, languages: Sequence[str]) -> None:
    """Check that a list of files has one for each language. Raises: ConfigError otherwise."""
    if languages and isinstance(path, list) and len(path) != len(languages):
        raise ConfigError(f"{what} lists {len(path)} files; expected one each: {languages}")


def check_languages(languages: Sequence[str], specs: Mapping[str, Spec | None], what: str) -> None:
    """Check languages that serve as tags, and that no corpus has a tag of its own.

    Args:
        specs: value of each option that names corpora.
        what: the option that makes tags of the languages, as typed.

    Raises: ConfigError if a language cannot be a tag or is named twice, or a corpus has a tag.
    """
    if len(set(languages)) < max(2, len(languages)):
        raise ConfigError(f"{what} needs two different languages: {', '.join(languages)}")
    for language in languages:
        if not TAG_NAME.fullmatch(language):
            raise ConfigError(
                f"{what} makes tags of the languages, and {language!r} is not a word of letters, "
                "digits, _ or -: rename the column or the files"
            )
    for part, spec in specs.items():
        for name, options in spec.items() if isinstance(spec, Mapping) else ():
            if options.get("tag") is not None:
                raise ConfigError(
                    f"{part}.{name}.tag={options['tag']}: {what} tags each source with the "
                    f"language that it is translated into. Leave {part}.{name}.tag out"
                )
