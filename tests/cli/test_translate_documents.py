"""`seq2seq translate --document`."""

import gzip
import re
from pathlib import Path

import pytest
import torch
from helpers.builders import answer_all
from helpers.commands import SENTENCES, Command, refused
from helpers.office_files import member, open_document

from seq2seq.cli import documents
from seq2seq.decoding import Engine, Hypothesis
from seq2seq.text.documents.document import Document
from seq2seq.text.documents.files.contents import Contents
from seq2seq.text.documents.html_markup import read_html
from seq2seq.translation.translator import Translator

GREEDY = "--beam-size", 1
TEXT = f"\ufeff  {SENTENCES[0]}  {SENTENCES[1]}\r\n\r\n- {SENTENCES[2]}\n\t* * *\nkein Ende"


def translated(run: Path, text: str, html: bool = False) -> str:
    """What Python makes of a text, sentence by sentence."""
    document = Document.of(text, "de", read=read_html if html else None)
    assert len(document.sentences) >= 2
    return document.join(Translator.load(run).translate(document.sentences, beam_size=1), "en")


def test_everything_but_the_sentences_is_kept(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    expected = translated(run, TEXT)
    assert expected.startswith("\ufeff  ") and "\r\n\r\n- " in expected
    assert not expected.endswith("\n") and "\n\t* * *\n" in expected
    ended = seq2seq("translate", run, *GREEDY, "--document", stdin=TEXT.encode())
    assert (ended.code, ended.out.decode()) == (0, expected)
    source, output = tmp_path / "source.txt.gz", tmp_path / "out.txt"
    source.write_bytes(gzip.compress(TEXT.encode()))
    seq2seq("translate", run, *GREEDY, "--document", "-i", source, "-o", output)
    assert output.read_bytes() == expected.encode()
    ended = seq2seq("translate", run, *GREEDY, "--document", TEXT, SENTENCES[0], "")
    assert ended.out.decode().startswith(f"{expected}\n") and ended.lines[-1] == ""


def test_html_keeps_its_tags(seq2seq: Command, run: Path) -> None:
    text = f'<p lang="Ein Hund.">{SENTENCES[0]} &lt;\n</p><pre>Ein Hund.</pre>{SENTENCES[1]}'
    ended = seq2seq("translate", run, *GREEDY, "--document", "--html", stdin=text.encode())
    assert ended.out.decode() == translated(run, text, html=True)
    assert ended.out.decode().startswith('<p lang="Ein Hund.">')
    assert "</p><pre>Ein Hund.</pre>" in ended.out.decode()
    image = f'<img alt="{SENTENCES[0]}">'
    ended = seq2seq("translate", run, *GREEDY, "--document", "--html", image)
    assert SENTENCES[0] not in ended.out.decode() and ended.out.endswith(b'">\n')


def test_placeholders_are_kept_if_the_search_can_do_so(seq2seq: Command, run: Path) -> None:
    text = "Ein Hund {name} bellt.\n\nhttp://a.de/b"
    several = seq2seq("translate", run, "--beam-size", 4, "--document", text)
    kept = re.findall(r"\{name\}|http://a.de/b", several.out.decode())
    left_out = re.findall(r"left out: '(.*?)'", several.err)
    assert sorted(kept + left_out) == ["http://a.de/b", "{name}"]
    greedy = seq2seq("translate", run, *GREEDY, "--document", text)
    assert ("left out" in greedy.err) == (greedy.code == 1) == ("{name}" not in greedy.out.decode())
    other = seq2seq("translate", run, "--beam-size", 4, "--document", "--keep", "Hund", text)
    assert "name" not in other.err and "Hund" in (other.out.decode() + other.err)


def test_a_sentence_without_translation_stays_and_is_named(
    seq2seq: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hypotheses = [Hypothesis([], float("nan"), float("nan"))]
    monkeypatch.setattr(Engine, "advance", lambda engine: answer_all(hypotheses, engine))
    ended = seq2seq("translate", run, "--document", stdin=TEXT.encode())
    assert (ended.code, ended.out.decode()) == (1, TEXT)
    assert "warning: sentence 2 has no translation" in ended.err and "line" not in ended.err


def test_minimum_bayes_risk_applies_to_several_texts(seq2seq: Command, run: Path) -> None:
    options = "--mbr", 4, "--beam-size", 4, "--keep", "x{9}"
    lines = seq2seq("translate", run, *options, *SENTENCES[:2]).lines
    document = seq2seq("translate", run, *options, "--document", "\n".join(SENTENCES[:2]))
    assert document.lines == [line.strip() for line in lines]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--html"], "--html is for whole texts: add --document"),
        (["--document", "--nbest", "2"], "--nbest is for single sentences"),
        (["--document", "--json"], "--json is for single sentences"),
        (["--document", "--prefix", "A"], "--prefix is for single sentences"),
        (["--document", "--json-input"], "--json-input is for single sentences"),
    ],
)
def test_options_for_single_sentences_are_refused_for_documents(
    seq2seq: Command, run: Path, options: list[str], message: str
) -> None:
    assert message in refused(seq2seq("translate", run, *options, "Ein Hund."))


def test_a_document_that_is_too_long_or_not_text_is_refused(
    seq2seq: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "LONGEST", 10)
    ended = seq2seq("translate", run, "--document", stdin=b"Ein Hund. " * 2)
    assert "standard input is over 10 bytes" in refused(ended)
    torch.save({}, tmp_path / "x.txt")
    ended = seq2seq("translate", run, "--document", "-i", tmp_path / "x.txt")
    assert "is not UTF-8 text" in refused(ended)


def test_invalid_bytes_are_replaced_and_named(seq2seq: Command, run: Path) -> None:
    ended = seq2seq("translate", run, *GREEDY, "--document", stdin=b"--\n \xff \n")
    assert (ended.code, ended.out.decode()) == (0, "--\n \ufffd \n")
    assert "line 2, byte 2: 0xff is not UTF-8" in ended.err


def test_files_come_back_as_files(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "a.md", tmp_path / "b.md"
    source.write_bytes(f"# {SENTENCES[0]}\r\n\r\n{SENTENCES[1]} `c`\r\n".encode())
    ended = seq2seq("translate", run, *GREEDY, "--document", source, "-o", output)
    assert (ended.code, ended.out) == (0, b"")
    text = output.read_bytes().decode()
    assert text.startswith("# ") and text.endswith("\r\n") and text.count("`c`") == 1
    assert text.count("\r\n\r\n") == 1 and SENTENCES[1] not in text
    assert seq2seq("translate", run, *GREEDY, source, "--document").out.decode() == text


def test_a_file_that_cannot_be_read_leaves_the_output_unchanged(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    source, output = tmp_path / "a.docx", tmp_path / "b.docx"
    source.write_bytes(b"PK\x03\x04")
    output.write_bytes(b"PK\x03\x04old")
    ended = seq2seq("translate", run, "--document", source, "-o", output)
    assert "a.docx cannot be read as .docx" in refused(ended)
    assert output.read_bytes() == b"PK\x03\x04old"
    ended = seq2seq("translate", run, "--document", source, "-o", source)
    assert "which is read" in refused(ended)
    missing = seq2seq("translate", run, "--document", tmp_path / "c.docx")
    assert "there is no such file" in refused(missing)
    both = seq2seq("translate", run, "--document", source, "-i", source)
    assert "give it alone" in refused(both)
    html = seq2seq("translate", run, "--document", "--html", source)
    assert "the name of a file says its format" in refused(html)


FOREIGN = [
    *("odg", "ppt", "xls", "mobi", "pdf", "jsonl", "toml", "csv", "tex", "rtf", "doc", "ods"),
    *("ipynb", "ini", "svg", "tar.gz", "7z", "PDF"),
]


@pytest.mark.parametrize("end", FOREIGN)
def test_a_file_of_an_unknown_format_is_never_taken_as_text(
    seq2seq: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.chdir(tmp_path)
    output = tmp_path / "out.txt"
    for is_there in (False, True):
        if is_there:
            Path(f"my letter.{end}").write_text("Ein Hund.")
            Path(f"letter.{end}").write_text("Ein Hund.")
        for name in (f"letter.{end}", f"my letter.{end}", f"./letter.{end}"):
            if end != "7z" or is_there or " " not in name:
                message = refused(seq2seq("translate", run, "--document", name, "-o", output))
                wrong = "srt, vtt, po" if is_there else "no such file"
                assert wrong in message and not output.exists()
    if end not in ("tar.gz", "7z"):
        given = "translate", run, "--document", "-i", f"letter.{end}", "-o", output
        assert "format should be one of txt, md" in refused(seq2seq(*given))
    assert not output.exists()


def test_folders_and_several_files_are_refused(
    seq2seq: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.md", "b.md", "plain"):
        Path(name).write_text(SENTENCES[0])
    Path("Ordner").mkdir()
    for given, wrong in (
        (["a.md", "b.md"], "give it alone"),
        (["a.md", SENTENCES[0]], "give it alone"),
        ([SENTENCES[0], "plain"], "give it alone"),
        (["a.md", "-i", "b.md"], "give it alone"),
        (["Ordner"], "is a folder"),
        (["Ordner/"], "is a folder"),
        (["nowhere/"], "no such file"),
        (["/nowhere/a"], "no such file"),
        (["plain"], "format should be one of"),
        (["--html", "-i", "a.md"], "--html is for texts"),
        (["--fuzzy", "a.md"], "--fuzzy is for"),
    ):
        ended = seq2seq("translate", run, "--document", *given, "-o", "out")
        assert wrong in refused(ended) and not Path("out").exists()
    assert "--document a.md" in refused(seq2seq("translate", run, "a.md"))
    folders = tmp_path, tmp_path.parent / "out"
    assert "--document" in refused(seq2seq("translate-files", run, *folders))


@pytest.mark.parametrize(
    ("given", "output", "better"),
    [
        (["a.md"], "b.docx", "b.md"),
        (["a.md"], "b.pdf", "b.md"),
        (["a.md"], "b.html", "b.md"),
        (["a.srt"], "b.vtt", "b.srt"),
        (["-i", "a.srt"], "b.txt", "b.srt"),
        ([SENTENCES[0]], "b.docx", "b.txt"),
        ([SENTENCES[0]], "b.odt", "b.txt"),
        (["a.md"], "b.json", "b.md"),
        (["--html", "<p>Ein Hund.</p>"], "b.md", "b.html"),
    ],
)
def test_the_name_of_the_output_must_match_its_format(
    seq2seq: Command,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: list[str],
    output: str,
    better: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.md").write_text(SENTENCES[0])
    Path("a.srt").write_text(f"1\n0:0:1,0 --> 0:0:2,0\n{SENTENCES[0]}\n")
    ended = seq2seq("translate", run, *GREEDY, "--document", *given, "-o", output)
    assert f"Type -o {better}" in refused(ended) and not Path(output).exists()
    ended = seq2seq("translate", run, *GREEDY, "--document", *given, "-o", better)
    assert ended.code == 0 and Path(better).read_text()
    for name in ("b.docx", "b.epub"):
        assert "Type -o b.txt" in refused(seq2seq("translate", run, SENTENCES[0], "-o", name))


def test_a_translated_archive_may_be_written_again(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    source, output = tmp_path / "a.odt", tmp_path / "b.odt"
    source.write_bytes(open_document(f"<text:p>{SENTENCES[0]}</text:p>"))
    for _ in range(2):  # the second time, it replaces an archive
        ended = seq2seq("translate", run, *GREEDY, "--document", source, "-o", output)
        assert ended.code == 0 and SENTENCES[0] not in member(output.read_bytes(), "content.xml")


def test_a_pdf_is_refused_with_advice(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    assert "pdftotext" in refused(seq2seq("translate", run, "--document", tmp_path / "a.pdf"))


def test_the_input_option_takes_files_of_all_formats(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    source = tmp_path / "a.srt"
    source.write_text(f"1\n0:0:1,0 --> 0:0:2,0\n<i>{SENTENCES[0]}</i>\n")
    named = seq2seq("translate", run, *GREEDY, "--document", source)
    given = seq2seq("translate", run, *GREEDY, "--document", "-i", source)
    assert (given.code, given.out) == (0, named.out)
    assert given.out.startswith(b"1\n0:0:1,0 --> 0:0:2,0\n<i>")


@pytest.mark.parametrize(
    "data",
    [
        b"{\\rtf1\\ansi Ein Hund.}",
        b"\xef\xbb\xbf<?xml version='1.0'?><a>Ein Hund.</a>",
        b"<!DOCTYPE html><p>Ein Hund.",
        b"WEBVTT\n\n00:01.000 --> 00:02.000\nEin Hund.",
        b"1\n00:00:01,000 --> 00:00:02,000\nEin Hund.",
        b"%PDF-1.7",
        b"PK\x03\x04",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 20,
    ],
)
def test_standard_input_that_is_not_plain_text_is_refused(
    seq2seq: Command, run: Path, data: bytes
) -> None:
    assert "text" in refused(seq2seq("translate", run, "--document", stdin=data))


def test_texts_with_full_stops_are_not_file_names(seq2seq: Command, run: Path) -> None:
    for text in ("Ein Hund.", "Ende...", "Um 10.30 Uhr", "3.5", "Ja/Nein", "http://a.de", "z. B."):
        assert seq2seq("translate", run, *GREEDY, "--document", text).code == 0


def test_problems_of_a_file_are_named(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "a.md", tmp_path / "b.md"
    source.write_bytes(b"- [a](<b\n  c>) x\n\n- Ein Hund.\n")
    contents = Contents([Document.of("a", None)], lambda texts: b"new", ["line 1 stays"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "open_file", lambda *_: contents)
        ended = seq2seq("translate", run, *GREEDY, "--document", source, "-o", output)
    assert (ended.code, output.read_bytes()) == (1, b"new")
    assert "warning: line 1 stays" in ended.err
