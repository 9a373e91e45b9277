"""Combine the alignments of two models, one for each direction, into one.

In one direction each target word has at most one source word; in the other, each source word has
at most one target word. The intersection is precise, the union is complete, and heuristics between
them grow the intersection within the union.

Sources: Och and Ney 2003 (J03-1002); Koehn, Och and Marcu 2003 (N03-1017); Koehn et al. 2005,
Edinburgh System Description for the 2005 IWSLT Speech Translation Evaluation.
"""

from collections.abc import Callable
from operator import itemgetter

from seq2seq.alignment.links import Link, LinkSet

HEURISTICS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")

# Steps (target, source) from a link to its neighbours: adjacent ones first, then diagonal ones.
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrize(forward: LinkSet, reverse: LinkSet, heuristic: str) -> set[Link]:
    """Combine the links of a sentence pair in both directions.

    Args:
        forward, reverse: pairs (source word, target word), in this order for both directions.
        heuristic: `intersection` or `union`; `grow-diag`: from the intersection, repeatedly add
            every link of the union that is adjacent or diagonal to a link and has a word without
            link; `grow-diag-final`: then the links of either direction that have such a word;
            `grow-diag-final-and`: or two such words. The order is that of the paper: by target
            word, then by source word; forward before reverse.

    Raises: ValueError for an unknown heuristic.
    """
    if heuristic not in HEURISTICS:
        raise ValueError(f"{heuristic!r} is not a heuristic: {', '.join(HEURISTICS)}")
    if heuristic == "union":
        return {*forward, *reverse}
    grown = set(forward & reverse)
    linked = {word for link in grown for word in words_of(link)}

    def add(link: Link, unlinked: int) -> bool:
        """Add a link if at least `unlinked` of its words have no link. Returns whether it was."""
        is_wanted = len(words_of(link) - linked) >= unlinked
        if is_wanted:
            grown.add(link)
            linked.update(words_of(link))
        return is_wanted

    if heuristic != "intersection":
        grow_diag(grown, forward | reverse, add)
    if heuristic.startswith("grow-diag-final"):
        for direction in (forward, reverse):
            for link in sorted(direction, key=itemgetter(1, 0)):
                add(link, 2 if heuristic.endswith("-and") else 1)
    return grown


def words_of(link: Link) -> set[tuple[str, int]]:
    """The two words of a link."""
    return {("source", link[0]), ("target", link[1])}


def grow_diag(grown: LinkSet, union: LinkSet, add: Callable[[Link, int], bool]) -> None:
    """Grow the links in passes, ordered by target word, until a pass adds none. A link added ahead
    of the current one is visited in the same pass.
    """
    ordered = sorted(union, key=itemgetter(1, 0))
    added = True
    while added:
        added = False
        for i, j in ordered:
            if (i, j) in grown:
                for step in NEIGHBOURS:
                    link = i + step[1], j + step[0]
                    added |= link in union and add(link, 1)
