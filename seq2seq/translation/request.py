"""A text to translate, from the place where it comes in until its result goes out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from seq2seq.alignment.choice import Alignment, Units
from seq2seq.base.errors import Seq2SeqError
from seq2seq.base.symbols import EOS, NAMES
from seq2seq.decoding.constraints.request import Groups, Requirements, check_request
from seq2seq.decoding.request import Request, SentenceRequest, Status
from seq2seq.decoding.search import Search
from seq2seq.text.documents.placeholders import find_placeholders

SHOWN = 10  # phrases that a message names
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
    score: float  # log-probability / length penalty; of a text in parts, the mean over parts
    ids: list[int] = []  # its pieces, the end included; of a text in parts, those of all parts
    token_logp: tuple[float, ...] = ()  # log-probability of each
    truncated: bool = False  # did the length limit end it, or a part of it?
    unsatisfied: tuple[str, ...] = ()  # what it should contain and does not, since it cannot
    alignment: Alignment | None = None  # with its source, where this was asked for
    shortlist: bool = False  # are its probabilities those among the pieces of a shortlist?

    @property
    def confidence(self) -> float:
        """The geometric mean of the probabilities of its pieces, in [0, 1] at any length; 1 without
        pieces, as their product is.
        """
        return math.exp(sum(self.token_logp) / max(len(self.token_logp), 1))

    def to_json(self, labels: Sequence[str]) -> dict[str, Any]:
        """An object for JSON: the text, its quality, and its pieces with their log-probabilities.

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
    """A problem with a text. The message continues the name of its place.

    Kinds: `unreadable` (nobody could read it), `refused` (it cannot be answered), `copied` (it or
    a word of it was not translated, since no language has it), `parts` (it is long, and was
    translated in parts), `unsatisfied` (no translation contains all that it must), `lost` (among
    that is a placeholder), `diverged` (none has a finite probability), `truncated` (the length
    limit cut off the best one).
    """

    kind: Kind
    message: str

    def at(self, place: str) -> str:
        """The message with the name of the place, such as `line 7`, before it."""
        return f"{place}{': ' if self.kind == 'refused' else ' '}{self.message}"


class Result(NamedTuple):
    """The answer to a text.

    Attributes:
        translations: best first; none for a blank text, and if it failed.
        problems: in the order in which they were met.
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
    """A text to translate, what its translation must be like, and the result.

    It is made once, where the text comes in, and is the same until the result goes out. If it can
    never be answered, it fails when it is submitted, with an `error` and a problem of the kind
    `refused`; if no translation has a finite probability, with one of the kind `diverged`; if the
    engine breaks down, with no problem but an `error`.

    Attributes:
        text: may be blank, and then has no translation, or too long for the model, and then is
            translated in parts.
        prefix: what its translation begins with; the last word may go on unless a space follows.
        must: groups of phrases, of each of which it contains one; a word alone is a group, too.
        must_not: phrases that it does not contain.
        search: None = the engine's.
        draw_id: random draws depend on it; None = the number of sentences that the engine for texts
            was given before.
        alternatives: how many ways to go on after the prefix are wanted, which differ in their next
            piece; 0 = its translations.
        links: of how many of its translations the words are linked, from the best on.
        units: what is linked: `words` between spaces, or `tokens`, with each mark for itself.
        owner: as in `SentenceRequest`.
        checked: is it a problem if its best translation lacks one of its placeholders?
        place: the name of the text in messages, such as `line 7`.
        ids: its pieces, from `TextCodec.encode`, if whoever made the request knows them already.
        requirements: of its translation, once it is submitted; None = none.
        endless: its words that are copied, since no language has them, and their pieces.
        copied: what of it is copied before each of its parts and after the last; none = nothing.
        sentences: what it is decoded as: its parts; again without what could not be satisfied; for
            alternatives, at first their next pieces, then all up to their ends.
        result: what is known of it so far; the whole when it has ended.

    Raises: DataError for values of other types, and for phrases that are empty.
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
    checked: bool = False
    place: str = "the text"
    ids: list[int] | None = None
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
        """True if there is no translation, or one that a program cannot use."""
        return bool(self.error) or any(p.kind in ("copied", "lost") for p in self.result.problems)

    def __post_init__(self) -> None:
        self.must, self.must_not = check_request(self.text, self.prefix, self.must, self.must_not)

    def finish(self, translations: Sequence[Translation]) -> None:
        """Set the translations, best first; called by the engine."""
        if self.sentences and not translations:
            message = f"has no translation of finite probability: {DIVERGED}"
            self.fail(Seq2SeqError(f"the text {message}"), Problem("diverged", message))
            return
        self.status = Status.DONE
        self.result.translations.extend(translations)
        best = translations[0] if translations else Translation("", 0.0)
        lost = self._find_lost(best)
        if best.unsatisfied or lost:
            named = [f"'{words}'" for words in dict.fromkeys([*best.unsatisfied, *lost])]
            more = [f"{len(named) - SHOWN:,} more"] * (len(named) > SHOWN)
            message = "has no translation that obeys what is asked of "
            message += f"{' and '.join([*named[:SHOWN], *more])}: left out"
            self.result.problems.append(Problem("lost" if lost else "unsatisfied", message))
        if best.truncated:
            message = "has a translation that the length limit cut off"
            self.result.problems.append(Problem("truncated", message))

    def _find_lost(self, best: Translation) -> list[str]:
        """The placeholders that its best translation lacks. What must be copied anyway, such as the
        content of a tag, is put there later.
        """
        copied = self.requirements.copied if self.requirements else {}
        lost = [phrase for phrase in best.unsatisfied if phrase in copied]
        later = find_placeholders(" ".join(group[0] for group in self.must))
        missing = find_placeholders(self.text) - find_placeholders(best.text) - later
        return [*lost, *missing] if self.checked else lost

    def copy(self) -> None:
        """Make the text its own translation; called by the engine and by readers of texts."""
        self.finish([Translation(self.text.strip(), 0.0)])

    def refuse(self, error: Exception) -> None:
        """Fail a text that can never be answered; called by the engine and by readers of texts."""
        self.fail(error, Problem("refused", str(error)))

    def fail(self, error: Exception, problem: Problem | None = None) -> None:
        """There is no answer, because of a problem with the text if that is given.

        Whoever made a request may say so too, for example of a line that cannot be read: it may
        then be submitted like any other.
        """
        self.status, self.error = Status.FAILED, error
        self.result.problems.extend([problem] if problem else [])
