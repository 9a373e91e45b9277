"""Links between words, read from files and projected to pieces, and faulty files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.builders import assert_equal
from helpers.tiny_runs import corpus, demo_lines, plan_of, prepared_for, tiny_overrides

from seq2seq.alignment.links import parse_links
from seq2seq.base.errors import ConfigError, DataError
from seq2seq.data.batches.batch import make_batch
from seq2seq.data.batches.batch_loader import BatchLoader, count_targets
from seq2seq.data.links.link_files import link_entries
from seq2seq.data.prepare import Prepared


def test_entries_are_in_order_of_target_pieces_and_after_a_tag() -> None:
    spans = [(0, 1), (1, 2), (3, 4)], [(0, 2), (3, 4)]
    entries = link_entries(parse_links("0-0 1-1"), ("ab c", "xy z"), spans, 1, True)
    assert entries.tolist() == [(0, 1, 0.5), (0, 2, 0.5), (1, 3, 1.0)]


def prepared(base: Path, links: Path, *overrides: str) -> Prepared:
    plan = plan_of(base, *tiny_overrides(base), f"guided.links={links}", *overrides)
    return prepared_for(plan)


def links_in(folder: Path, lines: Sequence[str], name: str = "train.align") -> Path:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / name


def test_rows_keep_their_links_when_pairs_are_left_out(base: Path, tmp_path: Path) -> None:
    """The second pair is empty, the fourth too long: rows are lines 1, 3 and 5."""
    sides = {
        "de": ["ja", "", "ein hund", "so " * 200, "der hund"],
        "en": ["yes", "no", "a dog", "so", "dog"],
    }
    for side, lines in sides.items():
        (tmp_path / f"five.{side}").write_text("".join(f"{x}\n" for x in lines), "utf-8")
    links = links_in(tmp_path, ["0-0", "", "1-0 0-1", "150-0", "1-0"])
    train = prepared(base, links, f"data.train={tmp_path / 'five'}").train
    assert len(train) == 3 and train.links is not None
    read = [train.links.row(row) for row in range(3)]
    ends = [0, *(int(n) for n in train.source_lengths)]
    assert set(read[0]["source"]) == set(range(ends[1]))
    # Of "a", the pieces of "hund", and of "dog" those of "ein".
    first, second = set(read[1]["source"][read[1]["target"] == 0]), set(read[1]["source"])
    assert first < second and max(first) == ends[2] - 1 and 0 in second - first
    assert max(read[2]["source"]) == ends[3] - 1 and 0 not in read[2]["source"]
    assert train.links.linked.tolist() == train.target_lengths.tolist()


def test_batches_hold_the_links_of_their_rows(base: Path, tmp_path: Path) -> None:
    lines = demo_lines("train", "align", 300)
    train = prepared(base, links_in(tmp_path, lines)).train
    assert train.links is not None
    rows = np.array([7, 3, 11])
    batch = make_batch(train, rows, *count_targets(train, rows))
    assert batch.links is not None
    assert batch.links.linked == batch.links.total == int(train.links.linked[rows].sum())
    for place, row in enumerate(rows):
        of_row = batch.links.places[:, batch.links.places[0] == place]
        assert of_row[1].tolist() == train.links.row(row)["target"].tolist()
        assert int(of_row[2].max()) <= int(train.source_lengths[row])
    per_piece = torch.zeros(3, batch.target.shape[1] - 1).index_put(
        tuple(batch.links.places[:2]), batch.links.shares, accumulate=True
    )
    assert_equal(per_piece[per_piece > 0], torch.ones(batch.links.linked))


@pytest.mark.parametrize(("world", "steps"), [(2, 1), (1, 3), (2, 2)])
def test_pieces_of_a_global_batch_divide_its_links(
    base: Path, tmp_path: Path, world: int, steps: int
) -> None:
    train = prepared(base, links_in(tmp_path, demo_lines("train", "align", 300))).train
    loaders = [
        BatchLoader(train, max_tokens=192, seed=1, rank=rank, world=world, steps=steps)
        for rank in range(world)
    ]
    asked: dict[int, int] = {}
    totals: dict[int, set[int]] = {}
    for loader in loaders:
        for i, batch in enumerate(loader):
            assert batch.links is not None
            step = i // steps
            asked[step] = asked.get(step, 0) + batch.links.linked
            totals.setdefault(step, set()).add(batch.links.total)
    assert {step: {n} for step, n in asked.items()} == totals


def test_links_are_projected_only_once(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = demo_lines("train", "align", 300)
    first = prepared(base, links_in(tmp_path, lines)).train.links
    monkeypatch.setattr("seq2seq.data.links.link_files.write_piece_links", lambda *_: 1 / 0)
    second = prepared(base, links_in(tmp_path, lines, "copy.align")).train.links
    assert first is not None and second is not None
    assert second.row(5).tolist() == first.row(5).tolist()
    with pytest.raises(ZeroDivisionError):
        prepared(base, links_in(tmp_path, ["", "", "", *lines[3:]]))
    with pytest.raises(ZeroDivisionError):
        prepared(base, links_in(tmp_path, lines), "guided.unlinked=free")


@pytest.mark.parametrize(
    "damaged",
    [
        "entries.values",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("entries.offsets", "linked")),
    ],
)
def test_damaged_links_are_written_again(base: Path, tmp_path: Path, damaged: str) -> None:
    links = links_in(tmp_path, demo_lines("train", "align", 300))
    options = f"data.cache={tmp_path / 'cache'}"
    first = prepared(base, links, options).train.links
    assert first is not None
    expected = first.row(299).tolist()
    (folder,) = (p for p in (tmp_path / "cache").glob("links-*") if p.is_dir())
    (folder / damaged).write_bytes((folder / damaged).read_bytes()[:-1])
    again = prepared(base, links, options).train.links
    assert again is not None and again.row(299).tolist() == expected


def with_line(line_no: int, line: str) -> list[str]:
    lines = demo_lines("train", "align", 300)
    return [*lines[: line_no - 1], line, *lines[line_no:]]


SIZES = (("train", 300), ("valid", 40))

MISTAKES: list[tuple[list[str], str]] = [
    (demo_lines("train", "align", 299), r"train.align has 299 lines of links for 300 pairs of"),
    (with_line(7, "0-0 1:2"), r"train.align:7: '1:2' is not a link"),
    (
        with_line(9, "99-0"),
        r"train.align:9: link 99-0 is out of range: there is no source word 99; its last",
    ),
    (with_line(3, "0-77"), r"train.align:3: link 0-77 .* there is no target word 77"),
    ([""], r"train.align has 1 lines"),
    ([""] * 300, r"no pair that is kept has a link in .*train.align"),
]


@pytest.mark.parametrize(("lines", "message"), MISTAKES)
def test_a_faulty_file_of_links_is_refused_with_its_line(
    base: Path, tmp_path: Path, lines: list[str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        prepared(base, links_in(tmp_path, lines))


@pytest.mark.parametrize("part", ["train", "valid"])
@pytest.mark.parametrize("line", ["0-0 1:2", "99-0"])
def test_impossible_links_are_reported_before_anything_is_computed(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, line: str
) -> None:
    def compute(*_: object) -> None:
        raise AssertionError("text is prepared before the links are checked")

    monkeypatch.setattr("seq2seq.data.prepare.learn_tokenizers", compute)
    good = {
        name: links_in(tmp_path, demo_lines(name, "align", n), f"{name}.align") for name, n in SIZES
    }
    lines = good[part].read_text(encoding="utf-8").splitlines()
    bad = links_in(tmp_path, [*lines[:6], line, *lines[7:]], "bad.align")
    options = [f"guided.{o}={f}" for o, f in zip(("links", "valid"), good.values(), strict=True)]
    options.append(f"guided.{'links' if part == 'train' else 'valid'}={bad}")
    with pytest.raises(DataError, match=r"bad.align:7: "):
        prepared(base, good["train"], *options)


def test_a_missing_file_of_links_is_refused_with_its_neighbours(base: Path, tmp_path: Path) -> None:
    links_in(tmp_path, ["0-0"], "train.algin")
    with pytest.raises(DataError, match=r"train.align do not exist.*Near it .*train.algin"):
        prepared(base, tmp_path / "train.align")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["guided.links=a", "data.train={n: {path: x}}"],
            r"a should.*\{n: FILE\}.*several corpora: n",
        ),
        (["guided.links={}"], r"guided.links=\{\} should be guided.links=FILE"),
        (["guided.links={n: a}"], r"should be guided.links=FILE$"),
        (
            ["guided.links={nwes: a}", "data.train={news: {path: x}}"],
            r"nwes.*should be guided.links=\{news: FILE\}",
        ),
        (["guided.valid=a"], r"guided.valid=a measures.*guided.links=FILE"),
        (["guided.links=a", "guided.weight=0"], r"guided.weight=0 trains nothing"),
        (["guided.links=a", "guided.layer=0"], r"guided.layer=0 should be at least 1"),
        (["guided.links=a", "guided.unlinked=none"], r"should be one of 'end', 'free'"),
        (["guided.links=a", "attn@cross_attn=fixed"], r"Fixed has none"),
    ],
)
def test_unsupported_options_are_refused_before_a_file_is_read(
    base: Path, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_of(base, *tiny_overrides(base), *overrides)


def test_single_corpora_may_have_links_which_a_tag_shifts(base: Path, tmp_path: Path) -> None:
    folder = corpus(base)
    links = links_in(tmp_path, demo_lines("train", "align", 300))
    # A name that YAML reads as a number.
    two = f"{{one: {{path: {folder / 'valid'}}}, 2: {{path: {folder / 'train'}, tag: x}}}}"
    # By characters both are cut alike, whatever text the tokenizer has learnt.
    alike = (
        "tokenizer=char",
        "tokenizer.vocab_size=1000",
        "data.max_length=256",
        "data.max_tokens=512",
    )
    named = f"data.train={two}", f"guided.links={{2: {links}}}"
    both, alone = (prepared(base, links, *alike, *more).train for more in (named, ()))
    assert both.links is not None and alone.links is not None
    assert not both.links.linked[:40].any() and both.links.linked[40:].all()
    for row in range(300):
        moved, still = both.links.row(40 + row), alone.links.row(row)
        assert both.source_lengths[40 + row] == alone.source_lengths[row] + 1
        assert moved["source"].tolist() == (still["source"] + 1).tolist()
        assert moved["target"].tolist() == still["target"].tolist()


def test_a_run_without_links_has_none(base: Path) -> None:
    plan = plan_of(base, *tiny_overrides(base))
    train = prepared_for(plan).train
    assert train.links is None and make_batch(train, [0], 1).links is None
    assert plan.guide is None
