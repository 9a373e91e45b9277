"""A batch whose sentences have slots in buffers, decoded by a step that can be a CUDA graph."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import reduce
from time import perf_counter_ns

import numpy as np
from torch import Tensor

from seq2seq.base.symbols import PAD
from seq2seq.decoding.beam import Beam
from seq2seq.decoding.decoding_batch import Results, encode
from seq2seq.decoding.device.beam import SlotBeamSearch
from seq2seq.decoding.device.buffers import Buffers, Size, SlotStore, Space
from seq2seq.decoding.device.memories import SlotMemories
from seq2seq.decoding.device.replay import Mirror, capture, upload
from seq2seq.decoding.device.search import SlotBeams, SlotSearch
from seq2seq.decoding.diverse import DiverseBeam
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.sample import Sample
from seq2seq.decoding.search import Array, Search, SearchState, SentenceOptions
from seq2seq.decoding.stats import Stats
from seq2seq.models import Seq2Seq


@dataclass(eq=False)
class Seat:
    """A sentence in a batch.

    Attributes:
        slot: its slot in the buffers.
        need: size class that it needs, apart from slots and room.
        state, index: state of the search that it started with, and its index there.
        limit: most tokens of its translation.
        steps: steps since it joined.
        is_read: True if it is done, and what was chosen is being copied to the host.
    """

    slot: int
    need: Size
    state: SearchState
    index: int
    limit: int
    steps: int = 0
    is_read: bool = False


class SlotBatch:
    """A batch of sentences with K hypotheses each, like `DecodingBatch`, that join and leave by
    slots while the same step is repeated.

    The step runs in the buffers of a size class. Buffers of a larger class take their place if
    there are too few slots, positions or source positions; those of a smaller class, once half of
    the slots are free. Which sentences are done is read one step late, and their results a step
    later, so that the device never waits for the host; sentences that are done change no more.

    Args:
        model: model in evaluation mode, see `Seq2Seq.has_constant_step`.
        search: rule that chooses the hypotheses, see `has_slot_search`.
        capacity: most sentences.
        store: spaces of all size classes, shared by the batches of an engine.
        stats: counters to which this batch adds its work.
    """

    def __init__(
        self, model: Seq2Seq, search: Search, capacity: int, store: SlotStore, stats: Stats
    ) -> None:
        self.model, self.search, self.capacity = model, search, capacity
        self.store, self.stats = store, stats
        self.device = next(model.parameters()).device
        self.buffers = Buffers(search.beams, self.device)
        self.choices = slot_search(search, self.buffers)
        self.memories = SlotMemories(model, self.buffers)
        self.size = Size()
        self._space: Space | None = None
        self._seats: dict[int, Seat] = {}  # by request id
        self._done: Mirror[dict[int, int]] = Mirror(self.device)
        self._answers: Mirror[list[int]] = Mirror(self.device)

    def __len__(self) -> int:
        return len(self._seats)

    @property
    def rows(self) -> int:
        """Hypotheses in the batch, N."""
        return len(self) * self.search.beams

    def fits(self, sources: Sequence[int], limit: int) -> bool:
        """True if there is memory for more sentences.

        Args:
            sources: their lengths in pieces.
            limit: longest translation of any of them.
        """
        size = self.needed.union(Size(source=max(sources), limit=limit + 2))
        return self._has_memory(self.size_class(size._replace(slots=len(self) + len(sources))))

    def fits_whole(self, source: int, limit: int) -> bool:
        """True if there is memory for one sentence to its end, with a source of so many pieces."""
        return self._has_memory(self.size_class(Size(1, limit, source, limit + 2)))

    @property
    def room(self) -> int:
        """Target positions that the next step needs."""
        return max((min(seat.steps + 1, seat.limit) for seat in self._seats.values()), default=0)

    @property
    def needed(self) -> Size:
        """The smallest class that holds all sentences, before it is rounded."""
        size = Size(len(self), self.room, 0, 0)
        # Sentences that joined together have the same need.
        return reduce(Size.union, {seat.need for seat in self._seats.values()}, size)

    def size_class(self, size: Size) -> Size:
        """The size class: powers of two, so that there are few of them."""
        room = power_of_two(size.room, 32)
        return size._replace(
            slots=min(power_of_two(size.slots, 1), max(self.capacity, size.slots)),
            room=room if self.model.max_length is None else min(room, self.model.max_length),
            source=power_of_two(size.source, 16),
            limit=power_of_two(size.limit, 64),
            listed=power_of_two(size.listed, 64) if size.listed else 0,
        )

    def join(
        self, source: Tensor, request_ids: Sequence[int], sentences: Sequence[SentenceOptions]
    ) -> None:
        """Start sentences, as in `DecodingBatch.join`; the source is in the memory of the host."""
        start = perf_counter_ns()
        lengths = (source != PAD).sum(1) - 1
        encoded = encode(self.model, upload(source.numpy(), self.device))
        values = self.memories.first_values(encoded)
        start = self.stats.lap("encode", start)
        state = self.search.start(lengths, sentences, self.model.max_length)
        need = self.choices.size_for(state)._replace(slots=0, room=0, source=source.shape[1])
        of_search = self.choices.first_values(state)
        values |= {name: upload(x, self.device) for name, x in of_search.items()}
        wanted = need.union(self.needed)._replace(slots=len(self) + len(request_ids))
        joint = self.size_class(wanted.union(self.size))
        # Without sentences a smaller class may do.
        keeps = len(self) > 0 and self._has_memory(joint)
        self.resize(joint if keeps else self.size_class(wanted))
        taken = {seat.slot for seat in self._seats.values()}
        free = [slot for slot in range(self.size.slots) if slot not in taken]
        slots = free[: len(request_ids)]
        self.buffers.put(upload(np.array(slots), self.device), values)
        limits = of_search["limits"].tolist()
        each = zip(request_ids, slots, limits, strict=True)
        for index, (request_id, slot, limit) in enumerate(each):
            self._seats[request_id] = Seat(slot, need, state, index, limit)
        self.stats.lap("join", start)

    def resize(self, size: Size) -> None:
        """Move all sentences to the buffers of another size class."""
        if self._space is not None and size == self.size:
            return
        slots = np.array([seat.slot for seat in self._seats.values()], dtype=np.int64)
        nbytes = self.buffers.nbytes(size)
        old = self.buffers.tensors

        def make() -> Space:
            self.buffers.tensors = tensors = self.buffers.allocate(size)
            try:
                return Space(tensors, capture(lambda: self.run(size), self.device))
            finally:
                self.buffers.tensors = old

        space = self.store.find(self, size, nbytes, make)
        self.buffers.tensors = old or space.tensors
        self.buffers.move(space.tensors, upload(slots, self.device))
        for slot, seat in enumerate(self._seats.values()):
            seat.slot = slot
        self._space, self.size = space, size

    def run(self, size: Size) -> None:
        """Decode one more token of every hypothesis: tensor code in place, of constant sizes."""
        tokens = self.buffers.rows("tokens")[:, None]
        memories = self.memories.begin(size.room - 1)
        hidden = self.model.decode(tokens, memories, self.memories.steps.positions).hidden
        request = self.choices.request(size)
        parents = self.choices.advance(self.model.candidates(hidden[:, -1], request))
        self.memories.end(memories, parents)

    def reserve(self) -> bool:
        """Make room for one more token in every row. Returns: False if there is no memory."""
        if 2 * len(self) > self.size.slots and self.room <= self.size.room:
            return True
        smallest = self.size_class(self.needed)
        size = self.size_class(self.needed.union(self.size))
        if 2 * len(self) <= self.size.slots or not self._has_memory(size):
            size = smallest
        if size != self.size and len(self) > 1 and not self._has_memory(size):
            return False
        self.resize(size)
        return True

    def _has_memory(self, size: Size) -> bool:
        return self.store.fits(self, self.buffers.nbytes(size))

    def step(self) -> Results:
        """Decode one more token of every hypothesis. Returns: the results of the sentences that
        were done two steps before: one step later the host knows, and one more it has copies.
        """
        start, stats = perf_counter_ns(), self.stats
        self.reserve()
        assert self._space is not None
        self._space.step()
        for seat in self._seats.values():
            seat.steps += 1
        stats.steps += 1
        stats.rows += self.size.slots * self.search.beams
        stats.live += self.rows
        slots = {request_id: seat.slot for request_id, seat in self._seats.items()}
        seen = self._done.exchange({"done": self.buffers["done"]}, slots)
        ended = self._find_ended(*seen) if seen else []
        kept = {}
        if ended:
            index = upload(np.array([self._seats[i].slot for i in ended]), self.device)
            kept = {name: self.buffers[name][index] for name in self.choices.kept}
        start = stats.lap("step", start)
        read = self._answers.exchange(kept, ended)
        results = self._answer(*read) if read else []
        stats.lap("answer", start)
        return results

    def _find_ended(self, read: dict[str, Array], slots: dict[int, int]) -> list[int]:
        """The sentences that were done when `read` was copied, and are not being answered."""
        ended = []
        for request_id, slot in slots.items():
            seat = self._seats.get(request_id)
            if read["done"][slot] and seat is not None and not seat.is_read:
                seat.is_read = True
                ended.append(request_id)
        return ended

    def _answer(self, held: dict[str, Array], request_ids: list[int]) -> Results:
        """The results of the sentences that are still there."""
        places = [place for place, i in enumerate(request_ids) if i in self._seats]
        if not places:
            return []
        ids = [request_ids[place] for place in places]
        seats = [self._seats.pop(request_id) for request_id in ids]
        states = [(seat.state, seat.index) for seat in seats]
        hypotheses = self.choices.results(states, {name: x[places] for name, x in held.items()})
        self._release()
        return list(zip(ids, hypotheses, strict=True))

    def _release(self) -> None:
        """Leave the buffers to the store if there are no sentences."""
        if not self._seats:
            self._space, self.buffers.tensors = None, {}
            self.store.holders.discard(self)

    def best_so_far(self, request_id: int) -> list[int]:
        """The tokens of a sentence's best open hypothesis."""
        slot = self._seats[request_id].slot
        length = int(self.buffers["position"][slot])
        ids: list[int] = self.buffers["said"][slot, 0, :length].tolist()
        return ids

    def keep(self, ids: Container[int]) -> None:
        """Keep only the sentences with these ids."""
        dropped = [self._seats.pop(i).slot for i in [*self._seats] if i not in ids]
        if dropped:
            slots = upload(np.array(dropped), self.device)
            self.buffers["done"].index_fill_(0, slots, True)
        self._release()


def slot_search(search: Search, buffers: Buffers) -> SlotSearch:
    """The state of a search in buffers, see `has_slot_search`."""
    if isinstance(search, Beam):
        return SlotBeamSearch(search, buffers)
    return SlotBeams(search, buffers)


def has_slot_search(search: Search) -> bool:
    """True if a search can run in buffers."""
    return not search.reads_weights and type(search) in (Greedy, Sample, Beam, DiverseBeam)


def power_of_two(n: int, least: int) -> int:
    """The smallest power of two that is at least `n` and `least`."""
    return 1 << (max(n, least) - 1).bit_length()
