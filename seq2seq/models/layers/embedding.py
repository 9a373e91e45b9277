"""Token embeddings of both languages and the output layer, which may share matrices."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.base.symbols import BOS
from seq2seq.models.layers.dropout import drop_words

Tie = Literal["none", "target", "all"]


class Embeddings(nn.Module):
    """The three matrices over vocabularies: source, target and output.

    Args:
        source_size: number of pieces in the source vocabulary.
        target_size: number of pieces in the target vocabulary, V.
        dim: width of the vectors, E. They are drawn from N(0, 1/E).
        tie: matrices to share: `target`, the output and the target matrix; `all`, all three, which
            needs a joint vocabulary; or `none`.
        scale: True to multiply embeddings by sqrt(E), so that they are not small compared to
            position vectors, whose elements are about 1.
        word_dropout: probability of hiding a word, on either side, in training.
        zero_start: True to keep the target vector of `<s>` at zero, as in Marian.

    Source: Press and Wolf 2017, arXiv:1608.05859, for the tying.
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        *,
        dim: int,
        tie: Tie = "all",
        scale: bool = True,
        word_dropout: float = 0.0,
        zero_start: bool = False,
    ):
        super().__init__()
        check_range("model.dim", dim, 1)
        check_range("model.word_dropout", word_dropout, 0, 1)
        if tie == "all" and source_size != target_size:
            raise ConfigError(
                f"model.tie=all needs one vocabulary, not {source_size} and {target_size} pieces: "
                "type tokenizer.joint=true, or model.tie=target"
            )
        self.dim = dim
        self.scale = dim**0.5 if scale else 1.0
        self.word_dropout = word_dropout
        self.target = nn.Embedding(target_size, dim)
        self.source = self.target if tie == "all" else nn.Embedding(source_size, dim)
        self.output = nn.Linear(dim, target_size)
        if tie != "none":
            self.output.weight = self.target.weight
        # In a fixed order, so that a seed determines the weights. `parameters` yields a shared
        # matrix only once.
        for weight in self.parameters():
            nn.init.normal_(weight, std=dim**-0.5)
        nn.init.zeros_(self.output.bias)
        if zero_start:
            clear_start(self)
            self.register_load_state_dict_post_hook(clear_start)  # type: ignore[no-untyped-call]
            self.target.weight.register_hook(without_start)

    def embed_source(self, ids: Tensor, cut: Tensor | None = None) -> Tensor:
        """(B, S) ids -> (B, S, E), zero where `cut` (B, S) is True."""
        return self._embed(self.source, ids, cut)

    def embed_target(self, ids: Tensor, cut: Tensor | None = None) -> Tensor:
        """(N, T) ids -> (N, T, E), zero where `cut` (N, T) is True."""
        return self._embed(self.target, ids, cut)

    def _embed(self, matrix: nn.Embedding, ids: Tensor, cut: Tensor | None) -> Tensor:
        x: Tensor = matrix(ids) * self.scale
        x = drop_words(x, ids, self.word_dropout) if self.training else x
        return x if cut is None else x.masked_fill(cut[..., None], 0)


@torch.no_grad()
def clear_start(embeddings: Embeddings, *_: Any) -> None:
    """Set the target vector of `<s>` to zero; also used as a hook after loading weights."""
    embeddings.target.weight[BOS] = 0


def without_start(gradient: Tensor) -> Tensor:
    """The gradient (V, E) with a zero row for `<s>`, so that neither updates nor weight decay
    change that row, even if the matrix is tied to the output.
    """
    # Not `torch.tensor`, whose copy to a GPU would wait for it.
    return gradient.index_fill(0, torch.full((1,), BOS, device=gradient.device), 0)
