import pytest
import torch

from seq2seq.errors import ConfigError
from seq2seq.evaluation.alignment import words
from seq2seq.evaluation.maps import Alignment, choose

# Two layers of two heads, two target words, two source words and the end. In the first layer the
# heads look at different words, so that their mean is blurred; in the second they agree.
FIRST = [[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]
SECOND = [[[0.0, 0.9, 0.1], [0.8, 0.0, 0.2]], [[0.0, 0.7, 0.3], [0.4, 0.0, 0.6]]]
ALIGNMENT = Alignment(words("a b"), words("x y"), torch.tensor([FIRST, SECOND]))


def test_the_sharpest_layer_is_the_one_whose_heads_agree() -> None:
    entropies = ALIGNMENT.entropies()
    # Of the first layer the means are (1/2, 1/2, 0) and (1/2, 0, 1/2): one bit each.
    torch.testing.assert_close(entropies[0], torch.tensor(2.0).log())
    assert choose([ALIGNMENT]).layer == 1


def test_the_layer_of_several_alignments_is_the_sharpest_on_average() -> None:
    other = Alignment(words("a b"), words("x y"), torch.tensor([SECOND, FIRST]))
    assert choose([ALIGNMENT, ALIGNMENT, other]).layer == 1
    assert choose([ALIGNMENT, other, other]).layer == 0


def test_layers_and_heads_are_counted_from_one() -> None:
    assert choose([ALIGNMENT], 1)[:3] == (0, None, False)
    assert choose([ALIGNMENT], 2, 1)[:3] == (1, 0, False)
    assert choose([ALIGNMENT], 2, "all")[:3] == (1, None, True)
    for number in (0, 3, -1):
        with pytest.raises(ConfigError, match=rf"layer {number} does not exist: there are 1 ... 2"):
            choose([ALIGNMENT], number)
        with pytest.raises(ConfigError, match=rf"head {number} does not exist: there are 1 ... 2"):
            choose([ALIGNMENT], 1, number)


def test_what_was_chosen_is_said_in_words() -> None:
    found = [choose([ALIGNMENT], 1, heads).words for heads in ("mean", "all", 2)]
    assert found == [
        f"decoder layer 1 of 2, {heads}"
        for heads in ("all heads", "each of 2 heads", "head 2 of 2")
    ]


def test_a_map_is_of_one_head_or_of_their_mean() -> None:
    assert ALIGNMENT.map(0, 1).tolist() == FIRST[1]
    assert ALIGNMENT.map(0).tolist() == [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]


def test_links_are_those_of_the_map_and_none_where_it_looks_at_the_end() -> None:
    assert ALIGNMENT.links(0, 1) == {(1, 0)}
    assert ALIGNMENT.links(1, 0) == {(1, 0), (0, 1)}
    assert ALIGNMENT.links(1) == {(1, 0), (0, 1)}  # y: 0.6 on a, 0.4 on the end
