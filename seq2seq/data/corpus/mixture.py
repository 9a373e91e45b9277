"""The corpora that make up a part of the data (train, valid, test), and their directions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from seq2seq.data.text.formats import TextFormat, find_format

Spec = str | list[str] | dict[str, Any]


@dataclass(frozen=True)
class Component:
    """One corpus of a part, in one direction.

    Attributes:
        name: name in messages; empty for the only corpus in the only direction.
        text: pairs of the corpus.
        weight: how often an epoch samples each pair, on average.
        tag, target_tag: symbols put before each source and each target, if any.
        augment: probabilities of changes to its pairs in training, see `AugmentOptions`.
        is_reversed: True if these are the pairs of another component, source and target swapped.
        corpus: name of the corpus in the option, which all its directions share.
        languages: source and target language, in data of several languages; otherwise empty.
    """

    name: str
    text: TextFormat
    weight: float = 1.0
    tag: str | None = None
    target_tag: str | None = None
    augment: Mapping[str, float] = field(default_factory=dict)
    is_reversed: bool = False
    corpus: str = ""
    languages: tuple[str, ...] = ()

    @property
    def is_augmented(self) -> bool:
        """True if any of its pairs are changed in training."""
        return any(self.augment.values())

    @property
    def direction(self) -> str:
        """Source and target language, such as de-en; empty if `languages` is."""
        return "-".join(self.languages)


def find_components(data: Mapping[str, Any], part: str) -> list[Component]:
    """The components of a part: each corpus in each of its directions, reversed ones last.

    Several directions are told apart by tags: the target language before the source; or, with
    `language_tags=both`, each language before its own text.

    Args:
        data: the options of a run's data, see `DataOptions`; older checkpoints lack some.
        part: train, valid or test.

    Raises: DataError if a file is missing; ConfigError if a list does not hold two paths.
    """
    spec, what, languages = data[part], f"data.{part}", data.get("languages")
    # A run in both directions is validated and tested in its own direction.
    both = bool(languages) or (data.get("both_directions", False) and part == "train")
    is_tagged = bool(languages or data.get("both_directions"))
    on_both_sides = bool(languages) and data.get("language_tags") == "both"
    augment = data.get("augment", {}) if part == "train" else {}
    found = []
    corpora = spec if isinstance(spec, dict) else {"": {"path": spec}}
    for name, options in corpora.items():
        mine = options.get("languages") or languages or (str(data["source"]), str(data["target"]))
        for i, j in permutations(range(len(mine)), 2):
            if i > j and not (both and options.get("both_directions", True)):
                continue
            path = options["path"]
            if isinstance(path, list) and len(path) == len(mine):
                path = [path[i], path[j]]
            component = Component(
                f"{name} {mine[i]}-{mine[j]}".strip() if both else name,
                find_format(path, mine[i], mine[j], f"{what}.{name}.path" if name else what),
                float(options.get("weight", 1)),
                mine[i if on_both_sides else j] if is_tagged else options.get("tag"),
                mine[j] if on_both_sides else None,
                {**augment, **options.get("augment", {})},
                is_reversed=i > j,
                corpus=name,
                languages=(mine[i], mine[j]) if languages else (),
            )
            found.append(component)
    return sorted(found, key=lambda component: component.is_reversed)
