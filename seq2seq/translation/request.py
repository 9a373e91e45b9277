"""A request to translate a text, and its result."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from seq2seq.alignment.choice import Alignment, Units
from seq2seq.base.errors import DataError, Seq2SeqError
from seq2seq.base.symbols import EOS, NAMES
from seq2seq.decoding.constraints.request import Groups, Requirements, check_request
from seq2seq.decoding.request import Request, SentenceRequest, Status
from seq2seq.decoding.search import Search
from seq2seq.text.documents.placeholders import find_placeholders
from seq2seq.text.tokenization.directions import PLAIN, Direction

SHOWN = 10  # maximum number of phrases that a message lists
DIVERGED = (
    "the output of the model is not finite (NaN or infinity). Its weights are damaged, or its "
    "training diverged"
)

Kind = Literal[
    "unreadable", "refused", "copied", "parts", "unsatisfied", "lost", "diverged", "truncated"
]


class Translation(NamedTuple):
    """One translation of one text."""

    text: str
    score: float  # log-probability / length penalty; for a text in parts, the mean over parts
    ids: list[int] = []  # pieces, including eos; for a text in parts, the pieces of all parts
    token_logp: tuple[float, ...] = ()  # log-probability of each piece
    truncated: bool = False  # True if the length limit cut off the translation or a part of it
    unsatisfied: tuple[str, ...] = ()  # requirements that could not be met
    alignment: Alignment | None = None  # alignment with the source, if requested
    shortlist: bool = False  # True if probabilities are relative to the pieces of a shortlist

    @property
    def confidence(self) -> float:
        """The geometric mean of the pieces' probabilities, in [0, 1] at any length; 1 if there are
        no pieces.
        """
        return math.exp(sum(self.token_logp) / max(len(self.token_logp), 1))

    def to_json(self, labels: Sequence[str]) -> dict[str, Any]:
        """The translation as a JSON object: its text, its scores, and its pieces with their
        log-probabilities.

        Args:
            labels: text of each piece, by id.
        """
        pieces = [NAMES[EOS] if i == EOS else labels[i] for i in self.ids]
        return {
            "text": self.text,
            **({"unmet": self.unsatisfied} if self.unsatisfied else {}),
            **({"shortlist": True} if self.shortlist else {}),
            "score": self.score,
            "confidence": self.confidence,
            "truncated": self.truncated,
            "tokens": list(zip(pieces, self.token_logp, strict=True)),
        }


class Problem(NamedTuple):
    """A problem with a text. The message is worded to follow the name of a place: "line 7 has ...".

    Kinds: `unreadable` (the text could not be read), `refused` (the text can never be translated),
    `copied` (the text, or a word that is too long, was copied instead of translated), `parts` (the
    text is long and was translated in parts), `unsatisfied` (no translation meets all
    requirements), `lost` (the same, and a placeholder is missing), `diverged` (no translation has a
    finite probability), `truncated` (the length limit cut off the best translation).
    """

    kind: Kind
    message: str

    def at(self, place: str) -> str:
        """The message, preceded by the name of a place, such as `line 7`."""
        return f"{place}{': ' if self.kind == 'refused' else ' '}{self.message}"


class Result(NamedTuple):
    """The result of translating a text.

    Attributes:
        translations: translations, best first; empty for a blank text or after a failure.
        problems: problems in the order in which they were found.
    """

    translations: list[Translation]
    problems: list[Problem]

    @property
    def failed(self) -> bool:
        """True if there is no translation, though the text is not blank."""
        kinds = {problem.kind for problem in self.problems}
        return not kinds.isdisjoint(("unreadable", "refused", "diverged"))


@dataclass(eq=False, slots=True)
class TranslationRequest(Request):
    """A text to translate, with the requirements of its translation and, in the end, its result.

    A request is created when a text arrives, and is the same object until its result is delivered.
    A request can fail in three ways. If it can never be translated, it fails when it is submitted,
    with an `error` and a problem of kind `refused`. If no translation has a finite probability, it
    fails with a problem of kind `diverged`. If the engine breaks down, it fails with an `error` and
    no problem.

    Attributes:
        text: text to translate; a blank one has no translation, and one that is too long for the
            model is translated in parts.
        prefix: text that the translation begins with; unless it ends in a space, its last word may
            continue.
        must: groups of phrases; the translation contains at least one phrase of each group. A
            string is a group of one phrase.
        must_not: phrases that the translation does not contain.
        search: search to use; None = the engine's.
        draw_id: number that random draws depend on; None = the number of sentences that the text
            engine received before this request.
        alternatives: number of continuations of the prefix, differing in their next piece, to
            return instead of ordinary translations; 0 = return ordinary translations.
        links: number of translations, from the best on, whose words are linked to the source.
        units: units that are linked: `words` between spaces, or `tokens`, where each punctuation
            mark is a separate unit.
        owner: as in `SentenceRequest`.
        source_language, target_language: languages, as for `Directions.find`; None = the default of
            the model.
        context: texts before this one in its document; models trained without `data.context`
            ignore them.
        inserted: texts of tags, which are in the document even if the translation lacks them.
        checked: True to report a problem if the best translation lacks a placeholder of the text.
        place: name of the text in messages, such as `line 7`.
        ids: pieces of the text from `TextCodec.encode`; set on submission if None.
        direction: direction of translation, set on submission.
        requirements: requirements of the translation, set on submission; None = no requirements.
        endless: words too long to translate, which are copied, with their numbers of pieces.
        copied: texts that are copied before each part and after the last; empty = nothing.
        sentences: sentences being decoded: the parts of the text, or the same again without
            requirements that could not be met; for alternatives, first their next pieces, then
            their completions.
        result: result so far; complete once the request has ended.

    Raises: DataError if a value has the wrong type or a phrase is empty.
    """

    text: str
    prefix: str = ""
    must: Groups = ()
    must_not: tuple[str, ...] = ()
    search: Search | None = None
    draw_id: int | None = None
    alternatives: int = 0
    links: int = 0
    units: Units = "words"
    owner: Any = None
    source_language: str | None = None
    target_language: str | None = None
    context: Sequence[str] = ()
    inserted: Sequence[str] = ()
    checked: bool = False
    place: str = "the text"
    ids: list[int] | None = None
    direction: Direction = field(default=PLAIN, init=False)
    requirements: Requirements | None = field(default=None, init=False)
    endless: dict[str, int] = field(default_factory=dict, init=False)
    copied: Sequence[str] = field(default=(), init=False)
    sentences: list[SentenceRequest] = field(default_factory=list, init=False)
    result: Result = field(default_factory=lambda: Result([], []), init=False)

    @property
    def size(self) -> int:
        return len(self.text)

    @property
    def is_flawed(self) -> bool:
        """True if there is no translation, or if it is unusable for a program, since a word was
        copied or a placeholder lost.
        """
        return bool(self.error) or any(p.kind in ("copied", "lost") for p in self.result.problems)

    def __post_init__(self) -> None:
        self.must, self.must_not = check_request(self.text, self.prefix, self.must, self.must_not)
        if isinstance(self.context, str) or not all(isinstance(each, str) for each in self.context):
            raise DataError("context should be a list of the texts before this one")

    def finish(self, translations: Sequence[Translation]) -> None:
        """End the request with its translations, best first. Called by the engine."""
        if self.sentences and not translations:
            message = f"has no translation of finite probability: {DIVERGED}"
            self.fail(Seq2SeqError(f"the text {message}"), Problem("diverged", message))
            return
        self.status = Status.DONE
        self.result.translations.extend(translations)
        best = translations[0] if translations else Translation("", 0.0)
        lost = self._find_lost(best)
        unsatisfied = [words for words in best.unsatisfied if words not in self.inserted]
        if unsatisfied or lost:
            named = [f"'{words}'" for words in dict.fromkeys([*unsatisfied, *lost])]
            more = [f"{len(named) - SHOWN:,} more"] * (len(named) > SHOWN)
            message = "has no translation that meets all requirements; left out: "
            message += " and ".join([*named[:SHOWN], *more])
            self.result.problems.append(Problem("lost" if lost else "unsatisfied", message))
        if best.truncated:
            message = "has a translation that the length limit cut off"
            self.result.problems.append(Problem("truncated", message))

    def _find_lost(self, best: Translation) -> list[str]:
        """The placeholders that the best translation lacks, except those that are inserted later.
        An inserted text takes the place of an equal one in the translation, if there is one.
        """
        copied = {*(self.requirements.copied if self.requirements else ())} - {*self.inserted}
        lost = [phrase for phrase in best.unsatisfied if phrase in copied]
        later = find_placeholders(" ".join(self.inserted))
        missing = find_placeholders(self.text) - (find_placeholders(best.text) | later)
        return [*lost, *missing] if self.checked else lost

    def copy(self) -> None:
        """End the request with the text itself as its translation. Called by the engine, and by
        code that reads texts.
        """
        self.finish([Translation(self.text.strip(), 0.0)])

    def refuse(self, error: Exception) -> None:
        """Fail because the text can never be translated. Called by the engine, and by code that
        reads texts.
        """
        self.fail(error, Problem("refused", str(error)))

    def fail(self, error: Exception, problem: Problem | None = None) -> None:
        """End the request with an error, and with a problem if the text caused it.

        The creator of a request may also call this, for example for a line that cannot be read; the
        failed request may then be submitted like any other.
        """
        self.status, self.error = Status.FAILED, error
        self.result.problems.extend([problem] if problem else [])
