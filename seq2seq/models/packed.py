"""A Transformer that reads packed tokens: every sentence of a batch in one row."""

from torch import Tensor

from seq2seq.attention.memory import PackedMemory
from seq2seq.data.batches.packed import Packed
from seq2seq.functional.varlen import Borders
from seq2seq.models.base import Memories
from seq2seq.models.transformer import Transformer


def read_packed(model: Transformer, packed: Packed) -> Tensor:
    """Teacher forcing over packed tokens, the same as `Transformer.forward` for each sentence.

    All attentions must be `MultiHead` with a dot product, and positions must be none, or act by
    `embed` or `rotate`.

    Returns: hidden states (N, E) of the target's tokens.
    """
    source, source_places, target, target_places, _ = packed.tokens
    of_source, of_target = packed.starts
    embedded = model.embeddings.embed_source(source[None])
    x = model.dropout(model.encoder_position.embed(embedded, source_places))
    for layer in model.encoder:
        memory = PackedMemory(Borders(of_source, of_source, packed.longest))
        y = layer.around_attention.pre_norm(x)
        x = layer.finish(x, layer.attention.advance(y, memory, source_places))
    states = model.encoder_norm(x)
    sources = [PackedMemory(Borders(of_target, of_source, packed.longest)) for _ in model.decoder]
    for layer, memory in zip(model.decoder, sources, strict=True):
        memory.append(layer.cross.remember(states, source_places))
    pasts = [PackedMemory(Borders(of_target, of_target, packed.longest)) for _ in model.decoder]
    return model.decode(target[None], Memories([*sources], pasts), target_places).hidden[0]
