"""`seq2seq align` pictures, heads, units, links, whole files."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.builders import error_rate
from helpers.commands import SENTENCES, Command, refused
from helpers.tiny_runs import DEMO, TINY_MODEL, demo_lines, save_model, tokenizer

from seq2seq.alignment.links import NEIGHBOUR, PRIOR, parse_links, read_alignment
from seq2seq.text.tokenization.bpe import ByteLevelBPE
from seq2seq.translation.translator import Translator

PAIR = "Ein Hund läuft.", "A dog runs."
REFERENCES = demo_lines("test", "en", 12)


@pytest.fixture
def translator(run: Path) -> Translator:
    return Translator.load(run, device="cpu")


def written(path: Path) -> list[str | None]:
    """The texts in an SVG picture, in order."""
    return [e.text for e in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


OF_FILES = ("--source", "a.de", "--target", "a.en")
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
def test_a_missing_folder_is_refused_before_the_model_is_opened(
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


def test_a_model_without_attention_weights_is_refused_by_name(
    seq2seq: Command, tmp_path: Path
) -> None:
    save_model(tmp_path / "best.ckpt", *TINY_MODEL, "attn=fixed")
    assert "attention 'fixed' has no weights" in refused(seq2seq("align", tmp_path, "Ja.", "Yes."))


def test_all_heads_are_drawn_with_their_names(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "map.svg"
    ended = seq2seq("align", run, *PAIR, "-o", path, "--heads", "all", "--layer", 1)
    assert ended.lines == [f"{path}: decoder layer 1 of 2, each of 4 heads"]
    assert {f"head {head}" for head in range(1, 5)} <= set(written(path))


def test_a_single_head_gives_another_picture_than_the_mean(
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


def test_the_links_of_a_sentence_agree_with_its_map(
    seq2seq: Command, run: Path, tmp_path: Path, translator: Translator
) -> None:
    path = tmp_path / "links.align"
    ended = seq2seq("align", run, *PAIR, "-o", path, "--layer", 1, "--heads", 2)
    assert ended.lines == [f"{path}: decoder layer 1 of 2, head 2 of 4"]
    weights = translator.align(*PAIR).weights[0, 0, 1].double().numpy()
    shares = weights[:, :3] / (weights[:, :3].sum(0) + PRIOR)
    shares = np.pad(shares / shares.sum(1, keepdims=True), 1)
    support = shares[1:-1, 1:-1] + NEIGHBOUR * (shares[:-2, :-2] + shares[2:, 2:])
    on_words = weights.argmax(1) < 3
    expected = {(int(row.argmax()), j) for j, row in enumerate(support) if on_words[j]}
    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert parse_links(line).sure == expected


@pytest.mark.parametrize("options", [(), ("--layer", 1, "--heads", 3)], ids=["guess", "given"])
def test_files_are_aligned_like_single_sentences(
    seq2seq: Command,
    run: Path,
    test_set: tuple[Path, Path],
    tmp_path: Path,
    options: tuple[object, ...],
) -> None:
    source, target = test_set
    whole, one = tmp_path / "whole.align", tmp_path / "one.align"
    ended = seq2seq("align", run, "--source", source, "--target", target, "-o", whole, *options)
    assert (ended.code, ended.err) == (0, "")
    lines = whole.read_text(encoding="utf-8").splitlines()
    for line, *pair in zip(lines, SENTENCES, REFERENCES, strict=True):
        seq2seq("align", run, *pair, "-o", one, *options)
        assert one.read_text(encoding="utf-8") == f"{line}\n"
    assert any(lines)


def test_without_layer_option_all_pairs_of_a_file_use_one_layer(
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


def test_a_pair_that_cannot_be_aligned_gives_an_empty_line_and_exit_code_1(
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
    assert {line_no for line_no, line in enumerate(lines, start=1) if line} <= {251}
    warned = re.findall(r"^warning: line (\d+) cannot be aligned: (the \w+)", ended.err, re.M)
    assert [int(line_no) for line_no, _ in warned] == [*range(1, 251), 252, 253]
    assert [side for _, side in warned[-3:]] == ["the source", "the source", "the target"]


def test_if_no_pair_can_be_aligned_all_lines_are_empty(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    path, output = tmp_path / "a.de", tmp_path / "a.align"
    path.write_text("\n\n", encoding="utf-8")
    ended = seq2seq("align", run, "--source", path, "--target", path, "-o", output)
    assert (ended.code, output.read_bytes()) == (1, b"\n\n")
    warned = re.findall(
        r"^warning: line (\d) cannot be aligned: the source is empty", ended.err, re.M
    )
    assert warned == ["1", "2"]


def test_the_error_rate_against_reference_links_is_printed(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = (DEMO / "test.align").read_text(encoding="utf-8").splitlines()[:12]
    reference, output = tmp_path / "gold.align", tmp_path / "a.align"
    reference.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = "--source", test_set[0], "--target", test_set[1]
    ended = seq2seq("align", run, *files, "-o", output, "--gold", reference)
    sure, possible = zip(*map(parse_links, lines), strict=True)
    predicted = [links.sure for links in read_alignment(output)]
    assert ended.lines[1].startswith(f"AER {error_rate(predicted, sure, possible):.3f}, precision ")
    reference.write_text("0-0\n", encoding="utf-8")
    message = refused(seq2seq("align", run, *files, "-o", output, "--gold", reference))
    assert "has 1 lines of links for 12 pairs" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "there is nothing to align"),
        (("Ja.", "Yes.", "-o", "map.gif"), "ends in .png, .svg, .pdf"),
        (("", "Yes."), "one of the two texts is empty"),
        (("Ja.", " "), "one of the two texts is empty"),
        (("Ja.", "Yes.", "--layer", "3"), "layer 3 does not exist: there are 1 ... 2"),
        (("--source", "a.de"), "both --source FILE and --target FILE"),
        (("--target", "a.en"), "both --source FILE and --target FILE"),
        (("Ja.", *OF_FILES), "cannot be aligned at once"),
        (("Ja.", "--gold", "a.align"), "cannot be aligned at once"),
        (OF_FILES, "-o FILE.align"),
        (("Ja.", "-o", "a.align", "--heads", "all"), "links come from one alignment"),
        ((*OF_FILES, "--gold", "a.align", "--heads", "all"), "links come from one alignment"),
        (("Ja.", "Yes.", "--heads", "5"), "head 5 does not exist: there are 1 ... 4"),
        (("Ja.", "Yes.", "--heads", "some"), "argument --heads: invalid heads value: 'some'"),
        (("Ja.", "Yes.", "--heads", "0"), "0 should be at least 1"),
        (("Ja.", "-o", "a.txt"), "ends in .png, .svg, .pdf, .align"),
    ],
)
def test_impossible_alignments_are_refused_in_one_message(
    seq2seq: Command, run: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(seq2seq("align", run, *arguments))


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """A copy of the run, in which a choice may be saved."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(run / "best.ckpt", folder)
    return folder


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    """Reference links of the sentences of `test_set`."""
    path = tmp_path / "gold.align"
    lines = (DEMO / "test.align").read_text(encoding="utf-8").splitlines()[:12]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_the_choice_has_the_lowest_error_rate_and_is_used_later(
    seq2seq: Command, copy: Path, test_set: tuple[Path, Path], reference: Path, tmp_path: Path
) -> None:
    files = "--source", test_set[0], "--target", test_set[1], "--gold", reference
    before = seq2seq("align", copy, *files)
    assert "a guess" in before.lines[0] and "--choose" in before.lines[0]
    tried = json.loads(seq2seq("align", copy, *files, "--choose", "--json").out)["forward"]
    kept = json.loads((copy / "best.alignment.json").read_text(encoding="utf-8"))
    best, *others = tried["candidates"]
    assert len(others) == 2 * 2 * 5 - 1  # readings, layers, four heads and their mean
    assert all(best["aer"] <= other["aer"] for other in others)
    assert {name: kept[name] for name in ("shift", "layer", "heads", "threshold")} == {
        name: best[name] for name in ("shift", "layer", "heads", "threshold")
    }
    after = json.loads(seq2seq("align", copy, *files, "--json").out)
    assert after["aer"] == pytest.approx(best["aer"])
    assert after["forward"]["why"] == f"chosen on validation: {copy / 'best.alignment.json'}"
    picture = seq2seq("align", copy, *PAIR, "-o", tmp_path / "map.svg")
    assert "chosen on validation" in picture.lines[0]
    # What is given wins.
    place = "--layer", 1, "--heads", 2, "--shift", 0
    given = seq2seq("align", copy, *PAIR, "-o", tmp_path / "map.svg", *place)
    assert given.lines == [f"{tmp_path / 'map.svg'}: decoder layer 1 of 2, head 2 of 4"]


def test_options_limit_the_choices_that_are_tried(
    seq2seq: Command, copy: Path, test_set: tuple[Path, Path], reference: Path
) -> None:
    files = "--source", test_set[0], "--target", test_set[1], "--gold", reference
    ended = seq2seq("align", copy, *files, "--choose", "--json", "--layer", 1, "--shift", 1)
    tried = json.loads(ended.out)["forward"]["candidates"]
    assert {(c["layer"], c["shift"]) for c in tried} == {(1, 1)}
    assert {c["heads"] for c in tried} == {"mean", 1, 2, 3, 4}
    ended = seq2seq("align", copy, *files, "--choose", "--json", "--heads", 3)
    tried = json.loads(ended.out)["forward"]["candidates"]
    assert {(c["layer"], c["shift"], c["heads"]) for c in tried} == {
        (layer, shift, 3) for layer in (1, 2) for shift in (0, 1)
    }
    message = refused(seq2seq("align", copy, *files, "--choose", "--layer", 3))
    assert "layer 3 does not exist" in message


@pytest.mark.parametrize("options", [(), ("--layer", 1), ("--heads", 3), ("--shift", 1)])
def test_the_chosen_links_are_written(
    seq2seq: Command,
    copy: Path,
    test_set: tuple[Path, Path],
    reference: Path,
    tmp_path: Path,
    options: tuple[object, ...],
) -> None:
    output = tmp_path / "a.align"
    files = "--source", test_set[0], "--target", test_set[1], "--gold", reference
    ended = seq2seq("align", copy, *files, "--choose", "--json", "-o", output, *options)
    result = json.loads(ended.out)
    assert result["aer"] == pytest.approx(result["forward"]["candidates"][0]["aer"])
    hand = read_alignment(reference)
    sure, possible = [h.sure for h in hand], [h.possible for h in hand]
    written = [links.sure for links in read_alignment(output)]
    assert error_rate(written, sure, possible) == pytest.approx(result["aer"])


def test_the_only_head_of_a_model_may_be_named(
    seq2seq: Command, test_set: tuple[Path, Path], reference: Path, tmp_path: Path
) -> None:
    model = tmp_path / "rnn.ckpt"
    save_model(model, "model=rnn", "model.dim=32")
    files = "--source", test_set[0], "--target", test_set[1], "--gold", reference
    named = json.loads(seq2seq("align", model, *files, "--choose", "--json", "--heads", 1).out)
    free = json.loads(seq2seq("align", model, *files, "--choose", "--json").out)
    assert named["forward"]["candidates"] == free["forward"]["candidates"]
    assert len(free["forward"]["candidates"]) == 2  # readings
    assert "head 2 does not exist" in refused(seq2seq("align", model, *files, "--heads", 2))


def test_links_of_pairs_that_cannot_be_aligned_count_as_missing(
    seq2seq: Command, copy: Path, test_set: tuple[Path, Path], reference: Path, tmp_path: Path
) -> None:
    lines = test_set[0].read_text(encoding="utf-8").splitlines()
    test_set[0].write_text("\n".join(["x " * 500, *lines[1:]]) + "\n", encoding="utf-8")
    files = "--source", test_set[0], "--target", test_set[1], "--gold", reference
    ended = seq2seq("align", copy, *files, "--choose", "--json", "-o", tmp_path / "a.align")
    result = json.loads(ended.out)
    assert ended.code == 1 and "line 1 cannot be aligned" in ended.err
    assert result["forward"]["candidates"][0]["aer"] == pytest.approx(result["aer"])


def test_a_file_of_links_is_replaced_only_by_a_complete_one(
    seq2seq: Command,
    run: Path,
    test_set: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: object, **__: object) -> Iterator[None]:
        yield None
        raise OSError(28, "No space left on device")

    output = tmp_path / "a.align"
    output.write_text("0-0\n")
    before = set(tmp_path.iterdir())
    monkeypatch.setattr(Translator, "alignments", failing)
    files = "--source", test_set[0], "--target", test_set[1]
    assert f"{output}: No space left" in refused(seq2seq("align", run, *files, "-o", output))
    assert output.read_text() == "0-0\n" and set(tmp_path.iterdir()) == before


def test_both_directions_are_combined_source_first(
    seq2seq: Command, copy: Path, test_set: tuple[Path, Path], reference: Path, tmp_path: Path
) -> None:
    source, target = test_set
    # The same model reads the files the other way round, too.
    paths = {name: tmp_path / f"{name}.align" for name in ("forward", "backward", "both")}
    seq2seq("align", copy, "--source", source, "--target", target, "-o", paths["forward"])
    seq2seq("align", copy, "--source", target, "--target", source, "-o", paths["backward"])
    files = "--source", source, "--target", target, "--reverse", copy
    options = "-o", paths["both"], "--symmetrize", "union", "--gold", reference, "--json"
    ended = seq2seq("align", copy, *files, *options)
    assert "both models translate from de to en" in ended.err
    forward, backward, both = (
        [links.sure for links in read_alignment(path)] for path in paths.values()
    )
    turned = [{(j, i) for i, j in links} for links in backward]
    assert both == [f | b for f, b in zip(forward, turned, strict=True)]
    result = json.loads(ended.out)
    assert result["symmetrize"] == "union"
    assert result["aer"] == result["all"]["union"]["aer"]
    sure, possible = zip(*read_alignment(reference), strict=True)
    for name, links in (("forward", forward), ("reverse", turned), ("union", both)):
        expected = error_rate(links, sure, possible)
        assert result["all"][name]["aer"] == pytest.approx(expected)


def test_links_of_any_aligner_are_compared_and_combined(seq2seq: Command, tmp_path: Path) -> None:
    forward, reverse, reference, output = (tmp_path / name for name in ("f", "r", "g", "o.align"))
    forward.write_text("0-0 1-1\n0-0\n")
    reverse.write_text("0-0 2-1\n0-1\n")
    reference.write_text("0-0 1p1\n0-0\n")
    alone = json.loads(seq2seq("align", "--links", forward, "--gold", reference, "--json").out)
    assert (alone["aer"], alone["predicted"], alone["sure_hits"]) == (0, 3, 2)
    ended = seq2seq(
        *("align", "--links", forward, reverse, "--symmetrize", "intersection", "-o", output)
    )
    assert (ended.code, output.read_text()) == (0, "0-0\n\n")
    table = seq2seq("align", "--links", forward, reverse, "--gold", reference).lines
    assert table[0].startswith("grow-diag-final-and: AER ")
    assert [row.split()[-1] for row in table[3:5]] == ["forward", "reverse"]


@pytest.mark.parametrize("command", ["model", "--links", "--gold"])
def test_links_are_never_written_over_what_is_read(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], reference: Path, command: str
) -> None:
    content = reference.read_bytes()
    copy = reference.with_name("copy.align")
    copy.write_bytes(content)
    files = "--source", test_set[0], "--target", test_set[1]
    typed = {
        "model": (run, *files, "--gold", reference, "-o", reference),
        "--links": ("--links", copy, reference, "-o", reference),
        "--gold": ("--links", copy, "--gold", reference, "-o", copy.parent / "." / "gold.align"),
    }
    assert "would overwrite" in refused(seq2seq("align", *typed[command]))
    assert reference.read_bytes() == content


def test_links_are_read_from_a_pipe(seq2seq: Command, tmp_path: Path) -> None:
    reference, pipe = tmp_path / "gold.align", tmp_path / "pipe"
    reference.write_text("0-0\n\n")
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=["0-0\n1-1\n"])
    writer.start()
    result = seq2seq("align", "--links", pipe, "--gold", reference, "--json")
    writer.join()
    assert json.loads(result.out)["predicted"] == 2


def test_two_models_are_combined_by_pieces_only_if_their_pieces_agree(
    seq2seq: Command, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = demo_lines("valid", "en", 40)
    other = ByteLevelBPE(vocab_size=tokenizer().size).train(lines).to_json()
    save_model(tmp_path / "a.ckpt", *TINY_MODEL)
    save_model(tmp_path / "b.ckpt", *TINY_MODEL, tokenizer={"source": other, "target": other})
    files = "--source", test_set[0], "--target", test_set[1], "-o", tmp_path / "o.align"
    pieces = "--units", "subwords"
    a, b = (("align", tmp_path / "a.ckpt", "--reverse", tmp_path / n) for n in ("a.ckpt", "b.ckpt"))
    message = refused(seq2seq(*b, *files, *pieces))
    assert "the two models cut the source into different pieces" in message
    assert seq2seq(*a, *files, *pieces).code == 0
    assert seq2seq(*b, *files).code == 0


@pytest.mark.parametrize("which", ["--gold", "--links"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n0-9\n", ":2: link 0-9 is out of range: there is no target word 9"),
        ("0-0\n0/0\n", ":2: '0/0' is not a link"),
        ("0-0\n", "has 1 lines of links for 2 pairs"),
    ],
)
def test_links_outside_their_sentences_are_reported_with_file_and_line(
    seq2seq: Command, tmp_path: Path, which: str, text: str, message: str
) -> None:
    files = [tmp_path / name for name in ("a.de", "a.en", "good", "bad")]
    for path, content in zip(
        files, ("Ja .\nJa .\n", "Yes .\nYes .\n", "0-0\n\n", text), strict=True
    ):
        path.write_text(content)
    source, target, good, bad = files
    links = {"--links": good, "--gold": good} | {which: bad}
    options = [text for pair in links.items() for text in pair]
    ended = seq2seq("align", *options, "--source", source, "--target", target)
    assert f"bad{message}" in refused(ended).replace("bad ", "bad", 1)


def test_reference_links_out_of_range_are_reported_before_a_model_is_built(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], reference: Path
) -> None:
    lines = reference.read_text().splitlines()
    lines[3] = "99-0"
    reference.write_text("".join(f"{line}\n" for line in lines))
    files = "--source", test_set[0], "--target", test_set[1], "--gold", reference
    assert f"{reference}:4: link 99-0 is out of range" in refused(seq2seq("align", run, *files))
    # Where only the tokenizer knows what is counted, they are named when it comes to them.
    lines[3] = "500-0"
    reference.write_text("".join(f"{line}\n" for line in lines))
    message = refused(seq2seq("align", run, *files, "--units", "subwords"))
    assert f"{reference}:4: link 500-0 is out of range" in message
    # A file with too few lines is noticed before the model is even opened.
    reference.write_text("0-0\n")
    message = refused(seq2seq("align", run / "nowhere", *files))
    assert "has 1 lines of links for 12 pairs" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no model is given"),
        (("RUN", "--links", "a.align"), "takes no model"),
        (("--links", "a.align", "--choose"), "takes no model"),
        (("--links", "a.align", "--layer", "1"), "takes no model"),
        (("--links", "a.align", "--shift", "0"), "takes no model"),
        (("--links", "a.align"), "there is nothing to do"),
        (("--links", "a", "b", "c", "--gold", "d"), "not 3"),
        (("--links", "a", "--gold", "b", "--symmetrize", "union"), "add --reverse MODEL"),
        (("--links", "a", "--gold", "b", "--source", "c"), "give both --source FILE and"),
        (("--links", "nowhere", "--gold", "b"), "cannot read the alignment nowhere"),
        (("RUN", "Ja.", "--choose"), "--choose, --reverse and --json are for files"),
        (("RUN", "--source", "a", "--target", "b", "--choose"), "add --gold FILE.align"),
    ],
)
def test_impossible_options_for_links_are_refused_in_one_message(
    seq2seq: Command, run: Path, arguments: tuple[str, ...], words: str
) -> None:
    typed = [run if text == "RUN" else text for text in arguments]
    assert words in refused(seq2seq("align", *typed))
