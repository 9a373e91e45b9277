"""Tags are measured against reference links."""

import random
from pathlib import Path
from types import SimpleNamespace

import measure_tags
import pytest
import torch

from seq2seq.alignment.choice import Alignment, Choice
from seq2seq.alignment.links import words

SOURCES = ["a b c d", "e f & g", "h i j k l", ""]
ORDERS = [[1, 0, 3, 2], [2, 3, 0, 1], [4, 3, 2, 1, 0], []]  # source word of each target word
SEED = random.Random(0)


def test_words_are_found_inside_the_tags_around_them() -> None:
    for _ in range(50):
        text = [f"w{n}<&" for n in range(SEED.randint(1, 9))]
        ranges = measure_tags.draw_ranges(len(text), SEED)
        assert ranges
        inside = measure_tags.words_inside(measure_tags.add_tags(text, ranges), len(ranges))
        assert inside == [set(range(*each)) for each in ranges]


@pytest.mark.parametrize("wrong", [False, True])
def test_tags_are_exact_if_the_links_of_the_model_are_those_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    targets = [
        " ".join(text.split()[i].upper() for i in order)
        for text, order in zip(SOURCES, ORDERS, strict=True)
    ]

    def alignments(pairs: list[tuple[str, str]]) -> list[Alignment | None]:
        assert pairs == list(zip(SOURCES, targets, strict=True))
        found: list[Alignment | None] = []
        for pair, order in zip(pairs, ORDERS, strict=True):
            weights = torch.eye(len(order) + 1)[order][None, None, None]
            found.append(Alignment(*map(words, pair), weights) if order else None)
        return found

    model = SimpleNamespace(find_choice=lambda _: Choice(0, 0, None), alignments=alignments)
    monkeypatch.setattr(measure_tags.Translator, "load", lambda *_: model)
    order_of = [order[1:] + order[:1] if wrong else order for order in ORDERS]
    links = [" ".join(f"{i}-{j}" for j, i in enumerate(order)) for order in order_of]
    files = []
    for name, lines in (("source", SOURCES), ("target", targets), ("links", links)):
        files.append(tmp_path / name)
        files[-1].write_text("".join(f"{line}\n" for line in lines))
    tags, exact, overlapping = measure_tags.measure(tmp_path, *files)
    assert tags > 1 and exact <= overlapping <= tags
    assert (exact == tags) != wrong
