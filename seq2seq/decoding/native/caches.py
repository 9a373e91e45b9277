"""Memories of tokens as the C reads them."""

from typing import Any

from seq2seq.attention.paged import PagedMemory, PagedSource
from seq2seq.attention.slab import SlabMemory
from seq2seq.decoding.native.layout import structs


def kv_cache(memory: Any) -> Any:
    """Its keys and values, which lie alike."""
    k, v = memory.storage["k"], memory.storage["v"]
    return structs.KVCache(k.data_ptr(), v.data_ptr(), k.shape[0], *k.stride()[:3])


def kv_view(memory: Any, rows: int) -> tuple[Any, Any]:
    """The slots of a memory that rows read, for the C, and what must stay alive for that."""
    if type(memory) in (PagedMemory, PagedSource):  # `isinstance` of a protocol is slow
        view = memory.table.view
        mask = None if view.mask is None else view.mask.data_ptr()
        slots = view.slots.data_ptr(), view.slots.stride(0)
        return structs.KVView(rows, view.slots.shape[1], mask, *slots), view
    mask = memory.table.read if type(memory) is SlabMemory else memory.mask
    if mask is None:
        return structs.KVView(rows, memory.length), None
    mask = mask.contiguous()
    return structs.KVView(rows, memory.length, mask.data_ptr()), mask
