"""Submitting now and being answered later: what engines have in common, whatever they translate."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

from seq2seq.errors import Seq2SeqError

Item = TypeVar("Item")
Answer = TypeVar("Answer")

DROPPED = "the engine dropped all its work when another caller met an error"
MAX_SIZE = 2**20  # of the items that `translate` submits together, if they have a size
MAX_UNANSWERED = 2**16  # items of a stream that wait for the answer to the first of them


class GivenUp(Seq2SeqError):
    """Items that will not be answered; all others will.

    Attributes:
        ids: of the items.
    """

    def __init__(self, message: str, ids: Collection[int]):
        super().__init__(message)
        self.ids = ids


class EngineBase(ABC, Generic[Item, Answer]):
    """Answers items in any order, each to the caller that submitted it.

    `translate` is for a file. A server submits an item whenever one arrives, calls `step` as long
    as `busy`, and `cancel` when an answer is no longer wanted. All of them may be mixed, and
    several streams be read in turn.

    Attributes:
        look_ahead: items that `translate` reads and submits together.
        submitted: count of all items so far; their ids are below it.
    """

    look_ahead: int

    def __init__(self) -> None:
        self.submitted = 0
        self._unread: dict[int, Answer] = {}  # by id, for the next `step`
        # Where the answer to each item goes that has none yet, by id.
        self._recipients: dict[int, dict[int, Answer]] = {}

    @property
    def busy(self) -> bool:
        """Is there an item whose answer has not been given yet?"""
        return bool(self._recipients or self._unread)

    @property
    @abstractmethod
    def waiting(self) -> bool:
        """Is there an item that has not been started?"""

    @abstractmethod
    def submit_all(
        self, items: Sequence[Item], answers: dict[int, Answer] | None = None
    ) -> list[int]:
        """Put items at the end of the queue, arranged so that they are answered fast.

        Args:
            answers: where the answers go, by id; None = to `step`.

        Returns: their ids.
        """

    def size(self, item: Item) -> int:
        """What counts towards `MAX_SIZE`."""
        return 0

    @abstractmethod
    def advance(self) -> None:
        """Work a little, for all callers: one step of the decoder, if there is one here.

        Raises: GivenUp; after any other error, all items are dropped.
        """

    def step(self) -> list[tuple[int, Answer]]:
        """Work a little. Returns: the ids and answers of what was submitted for `step` and has been
        answered since the last call.
        """
        self.advance()
        answers = list(self._unread.items())
        self._unread.clear()
        return answers

    def cancel(self, *ids: int) -> None:
        """Drop items: what they hold is free at once, and no answer follows."""
        for i in ids:
            self._unread.pop(i, None)
            self._recipients.pop(i, None)

    def translate(
        self,
        items: Iterable[Item],
        *,
        ready: Callable[[], bool] = lambda: True,
        max_unanswered: int = MAX_UNANSWERED,
    ) -> Iterator[Answer]:
        """The answer to each item, in the order of the items, which are read as they are needed.

        When the caller stops iterating, items that were read but not answered are dropped.

        Args:
            ready: can another item, or the end, be read without waiting? If not, those already read
                are answered first.
            max_unanswered: maximum items that are read before the first of them is answered.
        """
        source = iter(items)
        order: deque[int] = deque()  # ids, not answered yet
        answers: dict[int, Answer] = {}
        more, ended = True, False
        try:
            while True:
                room = min(self.look_ahead, max_unanswered - len(order))
                if not ended and (not order or (more and room > 0 and not self.waiting)):
                    window, size = [], 0
                    for item in islice(source, room):
                        window.append(item)
                        size += self.size(item)
                        more = ready()
                        if not more or size >= MAX_SIZE:
                            break
                    ended = not window
                    if window:
                        order.extend(self.submit_all(window, answers))
                if not order:
                    return
                self.advance()
                while order and order[0] in answers:
                    yield answers.pop(order.popleft())
                if order and order[0] not in self._recipients:
                    raise Seq2SeqError(DROPPED)
        finally:
            self.cancel(*order)

    def expect(self, answers: dict[int, Answer] | None) -> int:
        """The id of a new item. For subclasses, as `answer` is."""
        self.submitted += 1
        self._recipients[self.submitted - 1] = self._unread if answers is None else answers
        return self.submitted - 1

    def answer(self, i: int, answer: Answer) -> None:
        """Give an answer, unless it was cancelled."""
        if i in self._recipients:
            self._recipients.pop(i)[i] = answer
