"""`seq2seq align` pictures, heads, units, links, whole files."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import test_cli
from test_cli import SENTENCES, Command, refused
from tiny_runs import DEMO, TINY_MODEL, demo_lines, save_model

from seq2seq.evaluation.alignment import alignment_error_rate, parse_links, read_alignment
from seq2seq.translator import Translator

run, seq2seq, test_set = test_cli.run, test_cli.seq2seq, test_cli.test_set
PAIR = "Ein Hund läuft.", "A dog runs."
REFERENCES = demo_lines("test", "en", 12)


@pytest.fixture
def translator(run: Path) -> Translator:
    return Translator.load(run, device="cpu")


def written(path: Path) -> list[str | None]:
    """The texts in an SVG picture, in order."""
    return [e.text for e in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


FIRST_BYTES = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF-"}


@pytest.mark.parametrize("suffix", FIRST_BYTES)
def test_an_alignment_is_drawn_in_the_format_of_its_name(
    seq2seq: Command, run: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"map.{suffix}"
    ended = seq2seq("align", run, "Ein Hund läuft.", "A dog runs.", "-o", path, "--layer", 2)
    assert ended.lines == [f"{path}: decoder layer 2 of 2, all heads"]
    assert path.read_bytes().startswith(FIRST_BYTES[suffix])


@pytest.mark.parametrize("name", ["map.png", "links.align"])
def test_a_folder_that_is_not_there_is_refused_before_the_model_is_opened(
    seq2seq: Command, tmp_path: Path, name: str
) -> None:
    output = tmp_path / "maps" / name
    ended = seq2seq("align", tmp_path / "no_model", "Ja.", "Yes.", "-o", output)
    assert f"there is no folder {output.parent}" in refused(ended)


def test_a_picture_shows_the_words_of_both_sentences(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "map.svg"
    seq2seq("align", run, "Ein Hund läuft.", "A $dog$ runs_fast.", "-o", path)
    picture = path.read_text(encoding="utf-8")
    for word in ("Ein", "Hund", "läuft.", "A", "$dog$", "runs_fast."):
        assert f">{word}<" in picture


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("Ja.", "Yes.", "-o", "map.gif"), "ends in .png, .svg, .pdf"),
        (("", "Yes."), "one of the two texts is empty"),
        (("Ja.", " "), "one of the two texts is empty"),
        (("Ja.", "Yes.", "--layer", "3"), "layer 3 does not exist: there are 1 ... 2"),
        (("Ja.", "Yes.", "--layer", "0"), "0 should be at least 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_message(
    seq2seq: Command, run: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(seq2seq("align", run, *arguments))


def test_a_model_that_looks_nowhere_is_refused_by_name(seq2seq: Command, tmp_path: Path) -> None:
    save_model(tmp_path / "best.ckpt", *TINY_MODEL, "attn=fixed")
    assert "attention 'fixed' has no weights" in refused(seq2seq("align", tmp_path, "Ja.", "Yes."))


def test_all_heads_are_drawn_with_their_names(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "map.svg"
    ended = seq2seq("align", run, *PAIR, "-o", path, "--heads", "all", "--layer", 1)
    assert ended.lines == [f"{path}: decoder layer 1 of 2, each of 4 heads"]
    assert {f"head {number}" for number in range(1, 5)} <= set(written(path))


def test_a_head_alone_is_another_picture_than_the_mean(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    pictures = []
    for heads in ("mean", "1", "4"):
        path = tmp_path / f"{heads}.svg"
        ended = seq2seq("align", run, *PAIR, "-o", path, "--layer", 2, "--heads", heads)
        assert ended.code == 0
        pictures.append(path.read_bytes())
    assert len(set(pictures)) == 3
    assert ended.lines == [f"{path}: decoder layer 2 of 2, head 4 of 4"]
    # As one would say it of one.
    assert seq2seq("align", run, *PAIR, "-o", path, "--layer", 2, "--head", 4) == ended


def test_subwords_are_the_pieces_of_the_tokenizer(
    seq2seq: Command, run: Path, tmp_path: Path, translator: Translator
) -> None:
    path = tmp_path / "map.svg"
    seq2seq("align", run, *PAIR, "-o", path, "--units", "subwords")
    pieces = [*translator.source.pieces(PAIR[0]), *translator.target.pieces(PAIR[1])]
    # A space that is a piece of its own belongs to the piece that follows.
    shown = [piece for piece in pieces if piece != " "]
    assert len(pieces) > len(shown) > 6
    assert written(path)[: len(shown)] == shown


def test_the_links_of_a_sentence_are_those_of_its_map(
    seq2seq: Command, run: Path, tmp_path: Path, translator: Translator
) -> None:
    path = tmp_path / "links.align"
    ended = seq2seq("align", run, *PAIR, "-o", path, "--layer", 1, "--heads", 2)
    assert ended.lines == [f"{path}: decoder layer 1 of 2, head 2 of 4"]
    weights = translator.align(*PAIR).weights[0, 0, 1]
    best = weights.argmax(1).tolist()
    expected = {(source, target) for target, source in enumerate(best) if source < 3}
    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert parse_links(line).sure == expected


def test_files_are_aligned_as_their_sentences_alone(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    source, target = test_set
    whole, one = tmp_path / "whole.align", tmp_path / "one.align"
    options = "--layer", 1, "--heads", 3
    ended = seq2seq("align", run, "--source", source, "--target", target, "-o", whole, *options)
    assert (ended.code, ended.err) == (0, "")
    lines = whole.read_text(encoding="utf-8").splitlines()
    for line, *pair in zip(lines, SENTENCES, REFERENCES, strict=True):
        seq2seq("align", run, *pair, "-o", one, *options)
        assert one.read_text(encoding="utf-8") == f"{line}\n"
    assert any(lines)


def test_without_a_layer_all_pairs_of_a_file_have_the_same(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    source, target = test_set
    path = tmp_path / "a.align"
    command = "align", run, "--source", source, "--target", target, "-o", path
    chosen = re.search(r"layer (\d) of 2, all heads", seq2seq(*command).lines[0])
    links = path.read_bytes()
    assert chosen
    seq2seq(*command, "--layer", chosen[1])
    assert path.read_bytes() == links


def test_a_pair_that_cannot_be_aligned_is_an_empty_line_and_the_exit_code_is_1(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    source, target, output = (tmp_path / name for name in ("a.de", "a.en", "a.align"))
    # More at the beginning than the layer is chosen by.
    source.write_text("\n" * 250 + f"Ja.\n{'x ' * 500}\nJa.\n", encoding="utf-8")
    target.write_text("Yes.\n" * 252 + "\n", encoding="utf-8")
    command = "align", run, "--source", source, "--target", target, "-o", output, "--layer", 1
    ended = seq2seq(*command)
    lines = output.read_text(encoding="utf-8").split("\n")
    assert (ended.code, len(lines), lines[-1]) == (1, 254, "")
    assert {number for number, line in enumerate(lines, start=1) if line} <= {251}
    warned = re.findall(r"^warning: line (\d+) cannot be aligned: (the \w+)", ended.err, re.M)
    assert [int(number) for number, _ in warned] == [*range(1, 251), 252, 253]
    assert [side for _, side in warned[-3:]] == ["the source", "the source", "the target"]


def test_where_no_pair_can_be_aligned_all_lines_are_empty(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    path, output = tmp_path / "a.de", tmp_path / "a.align"
    path.write_text("\n\n", encoding="utf-8")
    ended = seq2seq("align", run, "--source", path, "--target", path, "-o", output)
    assert (ended.code, output.read_bytes()) == (1, b"\n\n")
    assert ended.lines == [f"{output}: empty, since no pair can be aligned"]


def test_the_error_rate_against_links_by_hand_is_printed(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = (DEMO / "test.align").read_text(encoding="utf-8").splitlines()[:12]
    gold, output = tmp_path / "gold.align", tmp_path / "a.align"
    gold.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = "--source", test_set[0], "--target", test_set[1]
    ended = seq2seq("align", run, *files, "-o", output, "--gold", gold)
    sure, possible = zip(*map(parse_links, lines), strict=True)
    predicted = [links.sure for links in read_alignment(output)]
    assert ended.lines[1] == f"AER {alignment_error_rate(predicted, sure, possible):.3f}"
    gold.write_text("0-0\n", encoding="utf-8")
    message = refused(seq2seq("align", run, *files, "-o", output, "--gold", gold))
    assert "has 1 lines of links for 12 pairs" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "there is nothing to align"),
        (("--source", "a.de"), "both --source FILE and --target FILE"),
        (("--target", "a.en"), "both --source FILE and --target FILE"),
        (("Ja.", "--source", "a.de", "--target", "a.en"), "cannot be aligned at once"),
        (("Ja.", "--gold", "a.align"), "cannot be aligned at once"),
        (("--source", "a.de", "--target", "a.en"), "-o FILE.align"),
        (("Ja.", "-o", "a.align", "--heads", "all"), "a file of links holds one alignment"),
        (("Ja.", "Yes.", "--heads", "5"), "head 5 does not exist: there are 1 ... 4"),
        (("Ja.", "Yes.", "--heads", "some"), "argument --heads: invalid heads value: 'some'"),
        (("Ja.", "Yes.", "--heads", "0"), "0 should be at least 1"),
        (("Ja.", "-o", "a.txt"), "ends in .png, .svg, .pdf, .align"),
    ],
)
def test_what_cannot_be_aligned_is_refused_in_one_message(
    seq2seq: Command, run: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(seq2seq("align", run, *arguments))
