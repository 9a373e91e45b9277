"""The Transformer: encoder and decoder stacks with a choice of attention in every role."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.attention import Attention, Memory, Place, Role, build_attention
from seq2seq.attention.base import Encoded
from seq2seq.attention.multihead import MultiHead
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.base.symbols import PAD
from seq2seq.models.base import PLAIN, Attentions, Decoded, Memories, PassOptions, Seq2Seq
from seq2seq.models.layers.dropout import Dropout
from seq2seq.models.layers.embedding import Embeddings
from seq2seq.models.layers.layer import FeedForward, LayerOptions, Residual, build_norm
from seq2seq.models.layers.positions import Positions, PositionScheme

Places = Mapping[Role, Place]


class Transformer(Seq2Seq):
    """Stacks of attention and feed-forward layers (Vaswani et al. 2017, arXiv:1706.03762).

    Args:
        embeddings: matrices over vocabularies; their width is E.
        attention: mechanism of each role.
        position: position scheme of each stack.
        layer: options of all layers, except for their attentions.
        encoder_layers, decoder_layers: number of layers in each stack.
        share_layers: True to apply one layer repeatedly in each stack (Universal Transformer,
            Dehghani et al. 2018, arXiv:1807.03819; without its halting).
        unpositioned: pattern of source pieces without a place in the order; see `source_positions`.
    """

    roles = frozenset(Role)
    option_classes = (LayerOptions,)
    encoder: Any  # nn.ModuleList of EncoderLayer
    decoder: Any  # nn.ModuleList of DecoderLayer

    def __init__(
        self,
        embeddings: Embeddings,
        attention: Attentions,
        position: Positions,
        layer: LayerOptions,
        *,
        encoder_layers: int,
        decoder_layers: int,
        share_layers: bool = False,
        unpositioned: str | None = None,
    ):
        super().__init__()
        check_range("model.encoder_layers", encoder_layers, 1)
        check_range("model.decoder_layers", decoder_layers, 1)
        self.embeddings = embeddings
        self.encoder_position, self.decoder_position = position
        self.max_length = position.encoder.max_length
        self.dropout = Dropout(layer.dropout)
        dim = embeddings.dim
        places = {role: Place(role, dim, dim) for role in Role}
        if position.encoder.hook not in (None, "embed"):
            places[Role.ENCODER] = Place(Role.ENCODER, dim, dim, position.encoder)
            places[Role.DECODER] = Place(Role.DECODER, dim, dim, position.decoder)
        self.encoder = stack(
            encoder_layers, share_layers, lambda: EncoderLayer(attention, places, layer)
        )
        if unpositioned is not None:
            check_unpositioned(unpositioned, position.encoder, self.encoder[0].attention)
        self.decoder = stack(
            decoder_layers, share_layers, lambda: DecoderLayer(attention, places, layer)
        )
        self.encoder_norm: nn.Module = nn.Identity()
        self.decoder_norm: nn.Module = nn.Identity()
        if layer.norm_order == "pre":  # otherwise the last layer's output is already normalised
            self.encoder_norm, self.decoder_norm = build_norm(dim, layer), build_norm(dim, layer)

    def encode(self, source: Tensor, options: PassOptions = PLAIN) -> Encoded:
        self._check_length(source.shape[1], "source")
        mask, groups = source != PAD, self.groups(source)
        positions = self.source_positions(source)
        embedded = self.embeddings.embed_source(source, options.source_cut)
        x = self.dropout(self.encoder_position.embed(embedded, positions))
        rotates = self.encoder_position.hook == "rotate" and self.unpositioned is not None
        for layer in self.encoder:
            x = layer(x, mask, groups, positions if rotates else None)
        return Encoded(self.encoder_norm(x), mask, groups)

    def forward(self, source: Tensor, target: Tensor, options: PassOptions = PLAIN) -> Decoded:
        self._check_length(target.shape[1], "target")
        # Each layer makes its own memory of the source, so that all of its work can be compiled.
        encoded, layers = self.encode(source, options), len(self.decoder)
        memories = Memories([encoded] * layers, [None] * layers)
        positions = torch.arange(target.shape[1], device=target.device)
        return self.decode(target, memories, positions, options)

    @property
    def blocks(self) -> list[nn.Module]:
        return [*self.encoder, *self.decoder]

    @property
    def cross_attentions(self) -> list[Attention[Any]]:
        return [layer.cross for layer in self.decoder]

    def memories(self, encoded: Encoded, beams: int) -> Memories:
        sources = [layer.cross.memory_of(encoded) for layer in self.decoder]
        return Memories(sources, [layer.attention.new_memory() for layer in self.decoder])

    def decode(
        self, tokens: Tensor, memories: Memories, positions: Tensor, options: PassOptions = PLAIN
    ) -> Decoded:
        embedded = self.embeddings.embed_target(tokens, options.target_cut)
        x = self.dropout(self.decoder_position.embed(embedded, positions))
        weights = []
        layers = zip(self.decoder, *memories, strict=True)
        for index, (layer, source, past) in enumerate(layers):
            asked = options.wants_weights(index)
            x, layer_weights = layer(x, source, past, positions, asked)
            if asked:
                weights.append(layer_weights)
        return Decoded(self.decoder_norm(x), torch.stack(weights) if weights else None)


def stack(layers: int, shared: bool, build: Callable[[], nn.Module]) -> nn.ModuleList:
    """A stack of layers, each with its own weights or, if `shared`, all with the same weights."""
    return nn.ModuleList([build()] * layers if shared else [build() for _ in range(layers)])


def check_unpositioned(pattern: str, scheme: PositionScheme, attention: nn.Module) -> None:
    """Check that the encoder can give tokens arbitrary positions, as `model.unpositioned` needs.

    Args:
        pattern: value of `model.unpositioned`.
        scheme: position scheme of the encoder.
        attention: self-attention of the encoder.

    Raises: ConfigError if the scheme has no positions of tokens, or if the attention can only
        rotate by consecutive positions.
    """
    typed = f"model.unpositioned={pattern!r}"
    if scheme.hook not in ("embed", "rotate"):
        why = "has no positions" if scheme.hook is None else "measures distances along the row"
        raise ConfigError(
            f"{typed} takes tokens out of the order, but this position scheme {why}: "
            "type position=sinusoidal, learned or rope"
        )
    if scheme.hook == "rotate" and type(attention) is not MultiHead:
        raise ConfigError(
            f"{typed} needs rotations by any position, which {type(attention).__name__} in the "
            "encoder cannot do: type attn@encoder_attn=mha, or position=sinusoidal"
        )


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    attention: Any  # Attention, or TokenAttention if positions are given

    def __init__(self, attention: Attentions, places: Places, options: LayerOptions):
        super().__init__()
        place = places[Role.ENCODER]
        self.attention = build_attention(attention[Role.ENCODER], place)
        self.feed = FeedForward(place.dim, options)
        self.around_attention = Residual(place.dim, options)
        self.around_feed = Residual(place.dim, options)

    def forward(
        self, x: Tensor, mask: Tensor, groups: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """x (B, S, E) -> (B, S, E). Positions (B, S) are for rotations; None = 0 ... S - 1."""
        y = self.around_attention.pre_norm(x)
        if positions is None:
            own = self.attention(y, mask=mask, groups=groups).out
        else:
            own = self.attention.attend_at(y, mask, positions)
        return self.finish(x, own)

    def finish(self, x: Tensor, own: Tensor) -> Tensor:
        """The output of the layer, from its input and the output of its self-attention."""
        x = self.around_attention.add_residual(x, own)
        return self.around_feed.add_residual(x, self.feed(self.around_feed.pre_norm(x)))


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, then the feed-forward network."""

    def __init__(self, attention: Attentions, places: Places, options: LayerOptions):
        super().__init__()
        place = places[Role.DECODER]
        self.attention = build_attention(attention[Role.DECODER], place)
        self.cross = build_attention(attention[Role.CROSS], places[Role.CROSS])
        self.feed = FeedForward(place.dim, options)
        self.around_attention = Residual(place.dim, options)
        self.around_cross = Residual(place.dim, options)
        self.around_feed = Residual(place.dim, options)
        if not self.cross.reads_queries and self.around_cross.pre:
            # The output of this norm is not used, and DDP fails if a parameter gets no gradient.
            self.around_cross.norm = nn.Identity()

    def forward(
        self,
        x: Tensor,
        source: Memory | Encoded,
        past: Memory | None,
        positions: Tensor,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """x (N, n, E) -> x (N, n, E), and cross-attention weights (N, H, n, S) or None."""
        y = self.around_attention.pre_norm(x)
        own = self.attention(y).out if past is None else self.attention.advance(y, past, positions)
        x = self.around_attention.add_residual(x, own)
        y = self.around_cross.pre_norm(x)
        memory = self.cross.memory_of(source) if isinstance(source, Encoded) else source
        read = self.cross.attend_beams(y, memory, positions, need_weights)
        x = self.around_cross.add_residual(x, read.out)
        x = self.around_feed.add_residual(x, self.feed(self.around_feed.pre_norm(x)))
        return x, read.weights
