"""The directions in which a model translates, and the tags that tell it which one is wanted."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import did_you_mean
from seq2seq.text.languages import matching_languages
from seq2seq.text.tokenization.tokenizer import Tokenizers

Codes = tuple[str | None, str | None]  # source and target; None = not given
ANY: Codes = (None, None)
SIDES = ("source", "target")
SHOWN = 12  # maximum number of languages that a message lists


class Direction(NamedTuple):
    """One direction of translation.

    Attributes:
        source, target: languages, as the model names them; None if they are not known.
        before: ids to put before the pieces of each source.
        start: ids that each translation begins with; they are not part of its text.
    """

    source: str | None = None
    target: str | None = None
    before: tuple[int, ...] = ()
    start: tuple[int, ...] = ()


PLAIN = Direction()  # of a model without tags


class Directions:
    """All directions in which a model translates.

    A model of several languages knows `data.languages`. With `data.language_tags=target`, the tag
    of the target language precedes each source. With `both`, the tag of the source language does,
    and each translation begins with the tag of the target language. A model trained in both
    directions is a model of two languages.

    Args:
        data: node `data` of the model's configuration.
        tokenizers: tokenizers of the model.
        tag: tag of a training corpus to put before each source; for a model of one direction.
        languages: source and target language where none is given; None = those of `data`.

    Attributes:
        languages: languages of the model; empty for a model of one direction.
        defaults: source and target language where none is given, by side.
        tags: number of ids before the pieces of each source.

    Raises: ConfigError if the tag or a language is unknown, and for a tag beside languages.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        tokenizers: Tokenizers,
        tag: str | None = None,
        languages: Codes = ANY,
    ):
        pair: list[Any] = [data.get(side) for side in SIDES]
        is_both = data.get("both_directions") and tag is None
        self.languages: Sequence[str] = data.get("languages") or (pair if is_both else ())
        if tag is not None and self.languages:
            raise ConfigError(f"--tag {tag}: this model needs languages: --target-language {tag}")
        self._tokenizers, self._has_source_tags = tokenizers, data.get("language_tags") == "both"
        self._tags = () if tag is None else (tokenizers.source.tag_id(tag),)
        self.tags = int(bool(self._tags or self.languages))
        self._found: dict[tuple[Any, Any], Direction] = {}
        self.defaults: dict[str, str | None] = dict(zip(SIDES, pair, strict=True))
        given = zip(SIDES, languages, strict=True)
        self.defaults |= {side: self._choose(side, code) for side, code in given if code}

    def find(
        self, source_language: str | None = None, target_language: str | None = None
    ) -> Direction:
        """The direction between two languages.

        Args:
            source_language, target_language: codes in any usual form, such as de, deu or deu_Latn;
                None = the default.

        Raises: ConfigError if the model does not know a language, a code is ambiguous, or a
            language is needed that is neither given nor has a default.
        """
        key = source_language, target_language
        if key not in self._found:
            pair = (self._choose(side, code) for side, code in zip(SIDES, key, strict=True))
            self._found[key] = self._between(*pair)
        return self._found[key]

    def _choose(self, side: str, code: str | None) -> str | None:
        """The model's name for a language, or the default. Raises: ConfigError as in `find`."""
        default = self.defaults[side]
        known = self.languages or [default or side]
        shown = ", ".join(known[:SHOWN]) + f", ... ({len(known)})" * (len(known) > SHOWN)
        if code is None:
            if default is None and self.languages and (side == "target" or self._has_source_tags):
                raise ConfigError(
                    f"the {side} language is missing: give --{side}-language, one of {shown}"
                )
            return default
        found = matching_languages(str(code), known)
        if len(found) == 1:
            return found[0]
        if found:
            raise ConfigError(f"{side} language {code!r} may be {' or '.join(found)}: give one")
        hint = did_you_mean(code, known)
        raise ConfigError(f"unknown {side} language {code!r:.60}{hint} This model knows: {shown}")

    def _between(self, source: str | None, target: str | None) -> Direction:
        if self._tags or not self.languages:
            return Direction(source, target, self._tags)
        if source == target:
            raise ConfigError(
                f"source and target language are both {target}: give two of {len(self.languages)} "
                "languages with --source-language and --target-language"
            )
        tagged = source if self._has_source_tags else target
        start = (self._tokenizers.target.tag_id(str(target)),) if self._has_source_tags else ()
        return Direction(source, target, (self._tokenizers.source.tag_id(str(tagged)),), start)
