"""Sampling of corpora by their size to the power 1/T: more of the small ones than by size alone."""

from collections.abc import Sequence

from seq2seq.data.corpus.corpus import Share


def temper(shares: Sequence[Share], temperature: float) -> list[Share]:
    """Change weights so that the rows of share i in a pass are proportional to w_i n_i^(1/T).

    The number of rows in a pass stays sum_i w_i n_i, up to rounding.

    Args:
        shares: rows n_i of each corpus, and weights w_i.
        temperature: T, at least 1; 1 leaves the weights as they are.

    Source: Arivazhagan et al. 2019, arXiv:1907.05019.
    """
    power = 1 / temperature - 1
    flat = [each._replace(weight=each.weight * each.size**power) for each in shares]
    before, after = (sum(each.weight * each.size for each in some) for some in (shares, flat))
    return [each._replace(weight=each.weight * (before / after)) for each in flat]
