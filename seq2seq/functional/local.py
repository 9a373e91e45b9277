"""Attention to nearby keys, page-local and windowed, without a T x S tensor.

Queries are cut into blocks, and each block reads a fixed number of keys around it. Scores are
(B, H, blocks, Q, W) with fixed Q and W, so that time and memory grow with T, not with T S.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.functional.dropout import dropout as drop
from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import masked_softmax, upcast

# Terms to add to scores, computed from the distances j - i: (C, Q, W) -> (C, H, Q, W).
Bias = Callable[[Tensor], Tensor | None]

# Least number of queries in a block of windowed attention: small products are inefficient.
MIN_BLOCK = 32


class Keys(NamedTuple):
    """Keys and values of the tokens at positions start, start + 1, ..."""

    k: Tensor  # (B, H, S, D)
    v: Tensor  # (B, H, S, M)
    mask: Tensor | None = None  # (B, S), True = real; None = all are real
    start: int = 0


class SoftmaxOptions(NamedTuple):
    """Options of the softmax over the keys that a query reads."""

    scale: float  # factor of the scores
    bias: Bias | None = None  # terms added to the scores
    dropout: float = 0.0  # probability of dropping a weight; 0 outside training
    need_weights: bool = False  # also return the weights before dropout: T x S numbers


class Blocks(NamedTuple):
    """Division of T queries, the last of S positions, into C blocks, and the keys of each block.

    Block c has the queries c Q ... (c + 1) Q - 1, and reads W keys: those at its own positions, at
    `back` positions before them and at `ahead` positions after them.
    """

    size: int  # Q, queries of a block
    back: int
    ahead: int

    def queries(self, x: Tensor) -> Tensor:
        """(B, H, T, D) -> (B, H, C, Q, D), padded with zeros."""
        padded = pad(x, (0, 0, 0, -x.shape[2] % self.size))
        return torch.unflatten(padded, 2, (-1, self.size))

    def keys(self, x: Tensor, queries: int) -> Tensor:
        """(B, H, S, D) -> (B, H, C, D, W), zeros where there is no key."""
        front, after = self._margins(queries, x.shape[2])
        width = self.back + self.size + self.ahead
        return pad(x, (0, 0, front, after)).unfold(2, width, self.size)

    def visible(self, keys: Keys, queries: int, causal: bool) -> Tensor:
        """Mask of the keys that a query may read: (B, 1, C, 1 or Q, W).

        A key must exist and not be padding and, if `causal`, must not come after the query.
        """
        real = self.keys(key_mask(keys)[:, None, :, None], queries)
        return real & (self.distance(real.device) <= 0) if causal else real

    def query_positions(self, start: int, queries: int, device: torch.device) -> Tensor:
        """Positions of the queries, of which the first is at `start`: (C, Q, 1)."""
        end = start + queries + -queries % self.size
        return torch.arange(start, end, device=device).view(-1, self.size, 1)

    def distance(self, device: torch.device) -> Tensor:
        """Distances j - i from query i to key j, the same in every block: (1, Q, W)."""
        key = torch.arange(-self.back, self.size + self.ahead, device=device)
        return key - torch.arange(self.size, device=device)[None, :, None]

    def scatter(self, weights: Tensor, queries: int, keys: int) -> Tensor:
        """Place the weights of blocks, (B, H, C, Q, W), in a full matrix, (B, H, T, S)."""
        *_, C, Q, W = weights.shape
        block = torch.arange(C, device=weights.device)[:, None, None]
        column = block * Q + torch.arange(W, device=weights.device)
        padded = weights.new_zeros(*weights.shape[:-1], (C - 1) * Q + W)
        padded = padded.scatter(-1, column.expand_as(weights), weights)
        front, after = self._margins(queries, keys)
        return pad(padded.flatten(2, 3)[:, :, :queries], (-front, -after))

    def _margins(self, queries: int, keys: int) -> tuple[int, int]:
        """Number of zeros to add before and after the keys; if negative, keys to remove."""
        return self.back - (keys - queries), self.ahead + -queries % self.size


def page_local_attention(
    q: Tensor,
    keys: Keys,
    how: SoftmaxOptions,
    *,
    page: int,
    radius: int,
    form: Literal["joint", "per_page", "mean"] = "joint",
    causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of query i, in page I = i // P, to the keys of the pages J with |I - J| <= radius.

        joint     softmax over all visible keys at once
        per_page  sum_J softmax_J(scale q_i K_J^T) V_J, where each page is normalised separately
        mean      as per_page, divided by the number of pages with a visible key

    Args:
        q: (B, H, T, D), at the last T positions of the keys.
        keys: keys and values; they may start at any position but include all that a query may read.
        how: options of the softmax; its bias is called with the distances within one block.
        page: P, in tokens. Pages begin at multiples of P, even if `keys` starts elsewhere.
        radius: number of pages to read on each side.
        causal: True if a query reads only itself and earlier positions.

    Returns: out (B, H, T, M), weights (B, H, T, start + S) or None.
    """
    sizes = check("B H T D, B H S D, B H S M", q=q, k=keys.k, v=keys.v)
    T, S = sizes["T"], sizes["S"]
    end = keys.start + S
    skipped = (end - T) % page  # earlier tokens in the page of the first query
    radius = min(radius, (end - 1) // page)
    if skipped + T <= page:  # a sentence of one page, or a decoding step
        blocks = Blocks(T, radius * page + skipped, page - skipped - T)
        skipped = 0
    else:
        blocks = Blocks(page, radius * page, 0 if causal else radius * page)
        q = pad(q, (0, 0, skipped, 0))
    rows = T + skipped

    products = (blocks.queries(q) * how.scale) @ blocks.keys(keys.k, rows)
    scores = add_bias(products, how.bias, blocks.distance(q.device))
    weights = softmax_by_page(scores, blocks.visible(keys, rows, causal), page, form)
    out = sum_values(drop(weights, how.dropout), blocks.keys(keys.v, rows))
    out = out.flatten(2, 3)[:, :, skipped:rows]
    if not how.need_weights:
        return out, None
    weights = blocks.scatter(weights, rows, S)[:, :, skipped:]
    return out, pad(weights, (keys.start, 0)).to(q.dtype)


def softmax_by_page(scores: Tensor, visible: Tensor, page: int, form: str) -> Tensor:
    """Weights of `page_local_attention` from scores (..., Q, W), where W is a number of pages."""
    if form == "joint":
        return masked_softmax(scores, visible)
    visible = visible.unflatten(-1, (-1, page))
    weights = masked_softmax(scores.unflatten(-1, (-1, page)), visible)
    if form == "mean":
        pages = visible.any(-1, keepdim=True).sum(-2, keepdim=True)
        weights = weights / pages.clamp(min=1)
    return weights.flatten(-2)


def window_attention(
    q: Tensor, keys: Keys, first: Keys, how: SoftmaxOptions, *, radius: int, causal: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Attention of query i to the keys j with |i - j| <= radius and to the global keys.

    There is one softmax over all of them, and a global key within the window counts once.

    Args:
        q: (B, H, T, D), at the last T positions of `keys`.
        keys: keys and values; they may start at any position but include the window of each query.
        first: F global keys, at positions 0 ... F - 1, which may also be in `keys`; F may be 0.
        how: options of the softmax; its bias is called with the distances within one block, and
            with those from all queries to the global keys.
        radius: r, number of keys in the window on each side.
        causal: True if a query reads only itself and earlier positions.

    Returns: out (B, H, T, M), weights (B, H, T, start + S) or None.
    Source: Beltagy et al. 2020, arXiv:2004.05150.
    """
    sizes = check("B H T D, B H S D, B H S M", q=q, k=keys.k, v=keys.v)
    T, S, F = sizes["T"], sizes["S"], first.k.shape[2]
    blocks = window_blocks(T, S, radius, causal)
    near = blocks.distance(q.device)
    far = torch.arange(F, device=q.device) - blocks.query_positions(keys.start + S - T, T, q.device)
    of_blocks = blocks.queries(q * how.scale)
    to_near = add_bias(of_blocks @ blocks.keys(keys.k, T), how.bias, near)
    to_far = add_bias(of_blocks @ first.k.transpose(-2, -1)[:, :, None], how.bias, far)
    near_visible = blocks.visible(hide_first(F, keys), T, causal) & (near.abs() <= radius)
    after = (far > 0) & causal
    visible = torch.cat((near_visible, key_mask(first)[:, None, None, None] & ~after), dim=-1)
    weights = masked_softmax(torch.cat((to_near, to_far), dim=-1), visible)

    to_near, to_far = drop(weights, how.dropout).split([near.shape[-1], F], dim=-1)
    out = sum_values(to_near, blocks.keys(keys.v, T))
    out = out + sum_values(to_far, first.v.transpose(-2, -1)[:, :, None])
    out = out.flatten(2, 3)[:, :, :T]
    if not how.need_weights:
        return out, None
    to_near, to_far = weights.split([near.shape[-1], F], dim=-1)
    whole = pad(blocks.scatter(to_near, T, S), (keys.start, 0))
    to_far = to_far.flatten(2, 3)[:, :, :T]
    return out, (whole + pad(to_far, (0, keys.start + S - F))).to(q.dtype)


def window_blocks(queries: int, keys: int, radius: int, causal: bool) -> Blocks:
    size = max(radius, MIN_BLOCK)
    if queries > size:
        return Blocks(size, radius, 0 if causal else radius)
    return Blocks(queries, min(radius, keys - queries), 0)  # no key comes after these queries


def key_mask(keys: Keys) -> Tensor:
    """The mask of the keys, (B, S); all True if `keys.mask` is None."""
    if keys.mask is not None:
        return keys.mask
    B, _, S, _ = keys.k.shape
    return torch.ones(B, S, dtype=torch.bool, device=keys.k.device)


def hide_first(first: int, keys: Keys) -> Keys:
    """Mask the keys at positions 0 ... first - 1."""
    place = keys.start + torch.arange(keys.k.shape[2], device=keys.k.device)
    return keys._replace(mask=key_mask(keys) & (place >= first))


def add_bias(scores: Tensor, bias: Bias | None, distance: Tensor) -> Tensor:
    """Add the bias of the distances, (1, Q, W) or (C, Q, W), to scores (B, H, C, Q, W).

    Returns: the sums, float32 at least.
    """
    scores = upcast(scores)
    added = None if bias is None else bias(distance)  # (1 or C, H, Q, W)
    return scores if added is None else scores + added.transpose(0, 1).to(scores.dtype)


def sum_values(weights: Tensor, v: Tensor) -> Tensor:
    """sum_j a_j v_j: weights (..., Q, W), v (..., M, W) -> (..., Q, M) in the type of v."""
    return weights.to(v.dtype) @ v.transpose(-2, -1)
