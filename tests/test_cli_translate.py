"""`seq2seq translate`: lines in, as many lines out."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import test_cli
import torch
from test_cli import SENTENCES, Command, refused

from seq2seq.cli.lines import LONGEST_INPUT_LINE, InputLines
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.decoding import Engine, Hypothesis
from seq2seq.translator import Translator

run, seq2seq = test_cli.run, test_cli.seq2seq


def test_the_command_line_translates_as_python_does(seq2seq: Command, run: Path) -> None:
    expected = Translator.load(run).translate(SENTENCES)
    assert seq2seq("translate", run, *SENTENCES).lines == expected
    assert seq2seq("translate", run, stdin="\n".join(SENTENCES).encode()).lines == expected
    changed = Translator.load(run).translate(SENTENCES, beam_size=1, length_penalty=0.5)
    typed = "--beam-size", 1, "--length-penalty", 0.5
    assert seq2seq("translate", run, *typed, *SENTENCES).lines == changed
    assert changed != expected


def test_options_may_stand_before_behind_and_between_the_texts(seq2seq: Command, run: Path) -> None:
    words, option = [str(run), *SENTENCES[:2]], ["--beam-size", "1"]
    found = [seq2seq("translate", *words[:i], *option, *words[i:]) for i in range(4)]
    assert len(found[0].lines) == 2
    assert found == [found[0]] * 4


@pytest.mark.parametrize(
    ("stdin", "filled"),
    [
        (b"", []),
        (b"\n", [False]),
        (b"\n\n\n", [False, False, False]),
        (b"Ja.", [True]),
        (b"Ja.\n\nNein.", [True, False, True]),
        (b" \t\nJa.\n \xe2\x80\xa8\n", [False, True, False]),
        (b"Ja.\r\n\r\nNein.\r\n", [True, False, True]),
        ("Ja.\u2028Nein.\nJa\x85.\x0b\x0cNein\rJa\nNe\x00in".encode(), [True, True, True]),
        (b"x" * 10_000 + b"\n" + b"Hund " * 5_000 + b"\nJa.\n", [True, True, True]),
        (b"\xef\xbb\xbfJa.\n", [True]),
    ],
    ids=[
        *("nothing", "a line end", "empty lines", "no last line end", "empty between"),
        *("white space", "CRLF", "separators", "very long", "byte order mark"),
    ],
)
def test_as_many_lines_come_out_as_go_in(
    seq2seq: Command, run: Path, stdin: bytes, filled: list[bool]
) -> None:
    ended = seq2seq("translate", run, "--beam-size", 1, stdin=stdin)
    assert [bool(line) for line in ended.lines] == filled
    assert ended.code == 0
    long = [str(n) for n, line in enumerate(stdin.split(b"\n"), start=1) if len(line) > 5_000]
    assert re.findall(r"^warning: line (\d+) is longer than", ended.err, re.M) == long
    assert len(ended.err.splitlines()) == len(long)


def test_a_line_end_of_windows_is_not_part_of_the_sentence(seq2seq: Command, run: Path) -> None:
    windows = seq2seq("translate", run, stdin=b"Ein Hund.\r\nEine Katze.\r\n")
    assert windows == seq2seq("translate", run, stdin=b"Ein Hund.\nEine Katze.\n")


def test_broken_text_is_mended_with_a_warning_that_names_line_and_byte(
    seq2seq: Command, run: Path
) -> None:
    ended = seq2seq("translate", run, stdin=b"Ja.\nEin \xe4lterer Hund.\nNein.\n")
    assert re.fullmatch(r"warning: line 2, byte 5: 0xe4 is not UTF-8 .*\n", ended.err)
    mended = seq2seq("translate", run, stdin="Ja.\nEin \ufffdlterer Hund.\nNein.\n".encode())
    assert (ended.code, ended.out) == (0, mended.out) and mended.err == ""


def test_a_byte_order_mark_is_dropped_and_counted(seq2seq: Command, run: Path) -> None:
    marked, plain = b"\xef\xbb\xbfEin H\xff.\nJa.\n", b"Ein H\xff.\nJa.\n"
    found, expected = (seq2seq("translate", run, stdin=text) for text in (marked, plain))
    assert found.out == expected.out
    assert ("line 1, byte 9:" in found.err) and ("line 1, byte 6:" in expected.err)
    # Elsewhere it is a character like any other, and takes no warning.
    assert seq2seq("translate", run, stdin=b"Ja.\n" + marked[:7] + b"\n").err == ""


def test_every_broken_line_is_named(
    seq2seq: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Hypothesis([5], 0.0, 0.0)]
    monkeypatch.setattr(Engine, "translate", lambda _, requests: ([*found] for _ in requests))
    ended = seq2seq("translate", run, stdin=b"\xff\n" * 300)
    assert re.findall(r"line (\d+), byte 1", ended.err) == [str(n) for n in range(1, 301)]


def test_a_line_too_long_to_be_one_is_empty_and_the_exit_code_is_1(
    seq2seq: Command, run: Path
) -> None:
    huge = b"Hund " * 500_000
    ended = seq2seq("translate", run, "--beam-size", 1, stdin=b"Ja.\n" + huge + b"\nJa.\n" + huge)
    first, second, third, fourth = ended.lines
    assert first == third != "" and second == fourth == ""
    assert ended.code == 1
    assert re.findall(r"^warning: line (\d) has 1,048,576 bytes or more", ended.err, re.M) == [
        *("2", "4")
    ]


def test_the_longest_line_there_may_be_is_read_whole() -> None:
    longest = b"x" * (LONGEST_INPUT_LINE - 1)
    assert list(InputLines(io.BytesIO(longest + b"\n" + longest))) == [longest.decode()] * 2
    with pytest.warns(UserWarning, match="line 1 has 1,048,576 bytes or more"):
        assert list(InputLines(io.BytesIO(b"x" + longest + b"\nJa.\n"))) == [None, "Ja."]


def test_a_search_that_would_fill_the_memory_is_refused(seq2seq: Command, run: Path) -> None:
    words = refused(seq2seq("translate", run, "--beam-size", 100_000, "Ja."))
    assert "beam-size=100000 is more than 400, the widest search of this model" in words


def test_a_translation_never_makes_two_lines_of_one(
    seq2seq: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokenizer, "decode_batch", lambda _, rows: ["a\nb\r\nc"] * len(rows))
    assert seq2seq("translate", run, "Ja.").lines == ["a b  c"]


def test_several_hypotheses_are_printed_with_number_score_and_text(
    seq2seq: Command, run: Path
) -> None:
    ended = seq2seq("translate", run, "--nbest", 2, stdin=b"Ja.\n\nNein.\n")
    rows = [line.split("\t") for line in ended.lines]
    assert [row[0] for row in rows] == ["1", "1", "3", "3"]
    for first, second in (rows[:2], rows[2:]):
        assert float(first[1]) >= float(second[1])
    best = seq2seq("translate", run, "Ja.", "Nein.").lines
    assert [rows[0][2], rows[2][2]] == best
    assert all(re.fullmatch(r"-?\d+\.\d{4}", row[1]) for row in rows)


def test_more_hypotheses_than_beams_are_refused(seq2seq: Command, run: Path) -> None:
    words = "--nbest 4 needs as many beams: add --beam-size 4"
    assert words in refused(seq2seq("translate", run, "--nbest", 4, "Ja."))
    assert len(seq2seq("translate", run, "--nbest", 4, "--beam-size", 4, "Ja.").lines) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--device", "nonsense"), "device 'nonsense' cannot be used here"),
        (("--device", "meta"), "device 'meta' cannot be used here"),
        (("--beam-size", "0"), "0 should be at least 1"),
        (("--max-source", "1"), "max-source=1 leaves no room"),
    ],
)
def test_what_cannot_be_is_refused_in_one_message(
    seq2seq: Command, run: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(seq2seq("translate", run, "Ja.", *arguments))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_here_is_refused_in_one_message(seq2seq: Command, run: Path) -> None:
    assert "device 'cuda' cannot" in refused(seq2seq("translate", run, "Ja.", "--device", "cuda"))


def test_a_closed_standard_input_is_answered_in_one_message(tmp_path: Path) -> None:
    """`seq2seq translate RUN <&-`: as from a service that has no input; no model is needed."""
    command = [sys.executable, "-m", "seq2seq", "translate", str(tmp_path)]
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
    ended = subprocess.run(closed, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: there is nothing to translate")
    assert len(ended.stderr.splitlines()) == 1
