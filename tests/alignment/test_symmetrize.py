"""One alignment from two directions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.alignment.symmetrize import HEURISTICS, symmetrize

link_sets = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=14)

# 0-0 and 3-3 are in both; 5-5 touches no other link, and 3-6 shares a word with one.
FORWARD = {(0, 0), (0, 1), (0, 2), (3, 3), (5, 5), (3, 6)}
REVERSE = {(0, 0), (1, 1), (3, 3)}


def paper(forward, reverse, heuristic):
    """The pseudo-code of Koehn et al., word by word, over the whole grid."""
    words = range(8)
    linked = {(e, f) for f, e in forward & reverse}
    union = {(e, f) for f, e in forward | reverse}

    def free(e, f):
        return not any(x == e for x, _ in linked), not any(y == f for _, y in linked)

    def grow():
        new = True
        while new:
            new = False
            for e in words:
                for f in words:
                    if (e, f) not in linked:
                        continue
                    steps = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
                    for de, df in steps:
                        point = e + de, f + df
                        if point in union and any(free(*point)):
                            linked.add(point)
                            new = True

    def final(direction, rule):
        for e in words:
            for f in words:
                if (f, e) in direction and rule(free(e, f)):
                    linked.add((e, f))

    if heuristic == "union":
        linked = union
    elif heuristic != "intersection":
        grow()
        rule = {"grow-diag-final": any, "grow-diag-final-and": all}.get(heuristic)
        if rule:
            final(forward, rule)
            final(reverse, rule)
    return {(f, e) for e, f in linked}


def test_each_heuristic_by_pencil_and_paper() -> None:
    both = {(0, 0), (3, 3)}
    # Beside 0-0: target word 1 has no link, so 0-1 comes; then 1-1 and 0-2, each with a free word.
    grown = both | {(0, 1), (1, 1), (0, 2)}
    expected = {
        "intersection": both,
        "union": FORWARD | REVERSE,
        "grow-diag": grown,
        # 5-5 has two free words, 3-6 one.
        "grow-diag-final": grown | {(5, 5), (3, 6)},
        "grow-diag-final-and": grown | {(5, 5)},
    }
    assert {name: symmetrize(FORWARD, REVERSE, name) for name in HEURISTICS} == expected
    # A link between words that are linked already does not grow.
    assert symmetrize({(0, 0), (1, 1), (0, 1)}, {(0, 0), (1, 1)}, "grow-diag") == {(0, 0), (1, 1)}


def test_where_the_directions_agree_on_nothing_final_finds_the_links() -> None:
    assert symmetrize({(0, 0)}, {(1, 1)}, "grow-diag") == set()
    assert symmetrize({(0, 0)}, {(1, 1)}, "grow-diag-final") == {(0, 0), (1, 1)}
    # Forward comes first, and takes source word 0 from reverse.
    assert symmetrize({(0, 0)}, {(0, 1)}, "grow-diag-final-and") == {(0, 0)}


@pytest.mark.parametrize("heuristic", HEURISTICS)
@given(forward=link_sets, reverse=link_sets)
def test_every_heuristic_is_that_of_the_paper(heuristic: str, forward: set, reverse: set) -> None:
    assert symmetrize(forward, reverse, heuristic) == paper(forward, reverse, heuristic)


@given(link_sets, link_sets)
def test_each_heuristic_contains_the_previous_one(forward: set, reverse: set) -> None:
    by = {name: symmetrize(forward, reverse, name) for name in HEURISTICS}
    assert by["intersection"] <= by["grow-diag"] <= by["grow-diag-final-and"]
    assert by["grow-diag"] <= by["grow-diag-final"] <= by["union"]
    assert by["grow-diag-final-and"] <= by["union"]
    assert all(symmetrize(forward, forward, name) == forward for name in HEURISTICS)


def test_an_unknown_heuristic_is_refused() -> None:
    with pytest.raises(ValueError, match="'grow' is not a heuristic: intersection, union"):
        symmetrize(set(), set(), "grow")
