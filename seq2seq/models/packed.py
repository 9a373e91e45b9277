"""A Transformer that reads packed tokens: every sentence of a batch in one row."""

from torch import Tensor

from seq2seq.attention.packed import PackedMemory
from seq2seq.data.batches.packed import PackedSide
from seq2seq.models.base import Memories
from seq2seq.models.transformer import Transformer


def read_packed(model: Transformer, source: PackedSide, target: PackedSide) -> Tensor:
    """Teacher forcing over packed tokens, the same as `Transformer.forward` for each sentence.

    All attentions must be `MultiHead` with a dot product, and positions must be none, or act by
    `embed` or `rotate`.

    Returns: hidden states (N, E) of the target's tokens.
    """
    embedded = model.embeddings.embed_source(source.ids)
    x = model.dropout(model.encoder_position.embed(embedded, source.positions))
    for layer in model.encoder:
        past = PackedMemory(source.sentences, source.sentences)
        x = layer(x, None, positions=source.positions, past=past)
    states = model.encoder_norm(x)
    sources, pasts = [], []
    for layer in model.decoder:
        memory = PackedMemory(target.sentences, source.sentences)
        memory.append(layer.cross.remember(states, source.positions))
        sources.append(memory)
        pasts.append(PackedMemory(target.sentences, target.sentences))
    memories = Memories([*sources], pasts)
    return model.decode(target.ids, memories, target.positions).hidden[0]
