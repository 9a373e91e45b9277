"""Memories of tokens as the C reads them."""

from collections.abc import Sequence
from math import prod
from typing import Any

from seq2seq.attention.paged import PagedMemory, PagedSource
from seq2seq.attention.slab import SlabMemory
from seq2seq.decoding.native.layout import structs


def kv_cache(memory: Any) -> Any:
    """Its keys and values, which lie alike."""
    k, v, kept = memory.storage["k"], memory.storage["v"], memory.kept
    rows, at = (k.shape[0], None) if kept is None else (memory.rows, kept.data_ptr())
    return structs.KVCache(k.data_ptr(), v.data_ptr(), rows, *k.stride()[:3], at)


def kv_view(memory: Any, rows: int) -> tuple[Any, Any]:
    """The slots of a memory that rows read, for the C, and what must stay alive for that."""
    if type(memory) in (PagedMemory, PagedSource):  # `isinstance` of a protocol is slow
        view = memory.table.view
        mask = None if view.mask is None else view.mask.data_ptr()
        slots = view.slots.data_ptr(), view.slots.stride(0)
        return structs.KVView(rows, view.slots.shape[1], mask, *slots), view
    if type(memory) is SlabMemory:
        table = memory.table
        slots = table.entries.data_ptr(), table.entries.stride(0)
        return structs.KVView(rows, table.length, None, *slots), table.entries
    mask = memory.mask
    if mask is None:
        return structs.KVView(rows, memory.length), None
    mask = mask.contiguous()
    return structs.KVView(rows, memory.length, mask.data_ptr()), mask


def state_structs(memories: Sequence[Any]) -> tuple[Any, int]:
    """All states of some memories for the C to write, and how many there are."""
    for memory in memories:
        memory.state = {name: x.contiguous() for name, x in memory.state.items()}
    states = [x for memory in memories for x in memory.state.values()]
    rows = ((x.data_ptr(), prod(x.shape[1:])) for x in states)
    return (structs.RowState * len(states))(*rows), len(states)
