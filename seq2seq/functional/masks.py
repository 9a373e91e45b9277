"""Masks of visibility: bool, True = may attend."""

import torch
from torch import Tensor


def causal_mask(
    queries: int, keys: int, start: int | Tensor = 0, *, device: torch.device | None = None
) -> Tensor:
    """Query i, standing at position start + i, may read keys 0 ... start + i, itself included.

    Args:
        queries: T.
        keys: S.
        start: position of the first query, an int or (N,) where rows stand at different places.

    Returns: (T, S), or (N, 1, T, S) for a tensor `start`.
    """
    query = torch.arange(queries, device=device)[:, None]
    key = torch.arange(keys, device=device)
    first = start.view(-1, 1, 1, 1) if isinstance(start, Tensor) else start
    return key <= query + first


def past_mask(positions: Tensor, queries: int, keys: int) -> Tensor:
    """The last T of S tokens may read what stands before them, and themselves.

    Args:
        positions: of the queries. (T,): rows are of one length, and the last key is the last
            query's own. (N, T): key j of a row is at position j, and behind the last query is
            nothing.
        queries: T.
        keys: S.

    Returns: (T, S), or (N, 1, T, S).
    """
    if positions.dim() == 1:
        return causal_mask(queries, keys, keys - queries, device=positions.device)
    return torch.arange(keys, device=positions.device) <= positions[:, None, :, None]
