"""Token embeddings of both languages, the output layer, and what they share."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range
from seq2seq.base.symbols import BOS
from seq2seq.models.layers.dropout import drop_words

Tie = Literal["none", "target", "all"]


class Embeddings(nn.Module):
    """The three matrices over vocabularies: source, target, output.

    Args:
        source_size: pieces in the source vocabulary.
        target_size: pieces in the target vocabulary, V.
        dim: E. Vectors are drawn from N(0, 1/E).
        tie: `target`: output = target matrix; `all`: source too, which needs one joint vocabulary;
            `none`.
        scale: multiply embeddings by sqrt(E), so that they are not lost beside position vectors of
            size 1.
        word_dropout: probability of hiding a word, of either side, in training.
        zero_start: the target vector of `<s>` is zero and stays so, as in Marian, whose decoder
            begins with nothing.

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
                "tokenizer.joint=true, or model.tie=target"
            )
        self.dim = dim
        self.scale = dim**0.5 if scale else 1.0
        self.word_dropout = word_dropout
        self.target = nn.Embedding(target_size, dim)
        self.source = self.target if tie == "all" else nn.Embedding(source_size, dim)
        self.output = nn.Linear(dim, target_size)
        if tie != "none":
            self.output.weight = self.target.weight
        # In a fixed order, so that a seed fixes the weights; `parameters` yields a shared one once.
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
    """The gradient (V, E) with a zero row for `<s>`, so that neither an update nor weight decay
    changes that row, even if it is tied to the output.
    """
    return gradient.index_fill(0, torch.tensor([BOS], device=gradient.device), 0)
