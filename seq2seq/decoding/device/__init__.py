"""Decoding with a constant number of launches per step: one CUDA graph of tensor code that works in
place, on buffers whose sizes and addresses do not change.

- `buffers`: the tensors of a size class; a sentence has one slot in each.
- `memories`: what the layers remember, in buffers.
- `search`, `beam`: greedy search and sampling, beam search and diverse beam search, in buffers.
- `batch`: sentences that join and leave, behind the interface of `DecodingBatch`.
- `replay`: CUDA graphs, and copies between host and device for which nobody waits.

On a CPU the same code runs without a graph, so that tests run what is captured.
"""

from seq2seq.decoding.device.batch import SlotBatch as SlotBatch
from seq2seq.decoding.device.batch import has_slot_search as has_slot_search
from seq2seq.decoding.device.buffers import SlotStore as SlotStore
