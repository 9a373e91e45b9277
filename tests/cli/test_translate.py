"""`seq2seq translate`: one line out per line in."""

import contextlib
import gzip
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.builders import answer_all
from helpers.commands import SENTENCES, Command, Ended, refused, started

from seq2seq.base import progress
from seq2seq.cli import status
from seq2seq.cli.lines import LONGEST_INPUT_LINE, InputLines
from seq2seq.decoding import Engine, Hypothesis
from seq2seq.text.tokenization.tokenizer import Tokenizer
from seq2seq.translation.translator import Translator

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


def test_the_command_line_translates_as_python_does(seq2seq: Command, run: Path) -> None:
    expected = Translator.load(run).translate(SENTENCES)
    assert seq2seq("translate", run, *SENTENCES).lines == expected
    assert seq2seq("translate", run, stdin="\n".join(SENTENCES).encode()).lines == expected
    changed = Translator.load(run).translate(SENTENCES, beam_size=1, length_penalty=0.5)
    typed = "--beam-size", 1, "--length-penalty", 0.5
    assert seq2seq("translate", run, *typed, *SENTENCES).lines == changed
    assert changed != expected


def test_options_may_stand_before_after_and_between_the_texts(seq2seq: Command, run: Path) -> None:
    words, option = [str(run), *SENTENCES[:2]], ["--beam-size", "1"]
    ended = [seq2seq("translate", *words[:i], *option, *words[i:]) for i in range(4)]
    assert len(ended[0].lines) == 2
    assert ended == [ended[0]] * 4


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
        (b"x y " * 2_500 + b"\n" + b"Hund " * 5_000 + b"\nJa.\n", [True, True, True]),
        (b"\xef\xbb\xbfJa.\n", [True]),
    ],
    ids=[
        *("nothing", "a line end", "empty lines", "no last line end", "empty between"),
        *("white space", "CRLF", "separators", "very long", "byte order mark"),
    ],
)
def test_each_line_read_gives_one_line_of_output(
    seq2seq: Command, run: Path, stdin: bytes, filled: list[bool]
) -> None:
    ended = seq2seq("translate", run, "--beam-size", 1, stdin=stdin)
    assert [bool(line) for line in ended.lines] == filled
    assert ended.code == 0
    long = [str(n) for n, line in enumerate(stdin.split(b"\n"), start=1) if len(line) > 5_000]
    assert re.findall(r"^warning: line (\d+) is longer than", ended.err, re.M) == long
    assert len(ended.complaints.splitlines()) == len(long)


def test_a_line_end_of_windows_is_not_part_of_the_sentence(seq2seq: Command, run: Path) -> None:
    windows = seq2seq("translate", run, stdin=b"Ein Hund.\r\nEine Katze.\r\n")
    assert windows == seq2seq("translate", run, stdin=b"Ein Hund.\nEine Katze.\n")


def test_invalid_utf_8_is_replaced_with_a_warning_that_names_line_and_byte(
    seq2seq: Command, run: Path
) -> None:
    ended = seq2seq("translate", run, stdin=b"Ja.\nEin \xe4lterer Hund.\nNein.\n")
    assert re.fullmatch(r"warning: line 2, byte 5: 0xe4 is not UTF-8 .*\n", ended.complaints)
    mended = seq2seq("translate", run, stdin="Ja.\nEin \ufffdlterer Hund.\nNein.\n".encode())
    assert (ended.code, ended.out) == (0, mended.out) and mended.complaints == ""


def test_a_byte_order_mark_is_dropped_and_counted(seq2seq: Command, run: Path) -> None:
    marked, plain = b"\xef\xbb\xbfEin H\xff.\nJa.\n", b"Ein H\xff.\nJa.\n"
    ended, expected = (seq2seq("translate", run, stdin=text) for text in (marked, plain))
    assert ended.out == expected.out
    assert ("line 1, byte 9:" in ended.err) and ("line 1, byte 6:" in expected.err)
    # So it is where files were joined, inside a text and in what was typed.
    joined = seq2seq("translate", run, stdin=b"Ja.\n\xef\xbb\xbfEin\xef\xbb\xbf Hund.\n")
    assert joined == seq2seq("translate", run, "\ufeffJa.", "Ein Hund.", "--prefix", "\ufeff")


def test_gzip_is_decompressed_and_translated(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    text = "".join(f"{line}\n" for line in SENTENCES).encode()
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(text))
    expected = seq2seq("translate", run, stdin=text)
    assert seq2seq("translate", run, stdin=gzip.compress(text)) == expected
    assert seq2seq("translate", run, "-i", packed) == expected
    packed.write_bytes(gzip.compress(text)[:-5])
    words = refused(seq2seq("translate", run, "-i", packed))
    assert words.startswith(f"{packed} is not a whole gzip file") and words.count("\n") == 1


def test_input_that_is_not_text_is_refused_before_the_model_is_opened(
    seq2seq: Command, tmp_path: Path
) -> None:
    (tmp_path / "source").write_bytes("Ja.\n".encode("utf-16"))
    ended = seq2seq("translate", "no/such/run", "-i", tmp_path / "source")
    assert "looks like UTF-16: iconv -f UTF-16 -t UTF-8" in refused(ended)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_of_gzip_is_answered_line_by_line(run: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with started("translate", run, "-i", tmp_path / "pipe") as process:
        assert process.stdin and process.stdout and process.stderr
        pack = zlib.compressobj(wbits=31)
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            for text in (b"Ja.\n", b"\n", b"Nein.\n"):
                pipe.write(pack.compress(text) + pack.flush(zlib.Z_SYNC_FLUSH))
                assert bool(process.stdout.readline().strip()) == bool(text.strip())
            pipe.write(pack.flush())
        ended = Ended(process.wait(timeout=60), b"", process.stderr.read().decode())
        assert (ended.code, ended.complaints) == (0, "")


def test_every_line_with_invalid_utf_8_is_named(
    seq2seq: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hypotheses = [Hypothesis([5], 0.0, 0.0)]
    monkeypatch.setattr(Engine, "advance", lambda engine: answer_all(hypotheses, engine))
    ended = seq2seq("translate", run, stdin=b"\xff\n" * 300)
    assert re.findall(r"line (\d+), byte 1", ended.err) == [str(n) for n in range(1, 301)]


def test_a_line_that_is_too_long_becomes_empty_and_the_exit_code_is_1(
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


def test_the_longest_allowed_line_is_read_whole() -> None:
    longest = b"x" * (LONGEST_INPUT_LINE - 1)
    assert list(InputLines(io.BytesIO(longest + b"\n" + longest))) == [longest.decode()] * 2
    assert list(InputLines(io.BytesIO(b"x" + longest + b"\nJa.\n"))) == [None, "Ja."]


def test_translations_that_the_length_limit_cuts_off_are_counted_and_named(
    seq2seq: Command, run: Path
) -> None:
    """A limit of one token leaves no room for a text and its end."""
    short = ("--length-ratio", 0, "--length-extra", 1)
    ended = seq2seq("translate", run, *short, "--stats", "--json", stdin=b"Ein Hund.\n\nJa.\n")
    assert [json.loads(line)["truncated"] for line in ended.lines] == [True, None, True]
    assert "warning: cut off at the length limit: 2 translation(s), of line 1, 3." in ended.err
    assert "\ncut off at the length limit: 2 sentences" in ended.err
    whole = seq2seq("translate", run, "--length-ratio", 20, "Ein Hund.")
    assert "cut off" not in whole.err


def test_max_length_bounds_every_translation_whatever_its_source(
    seq2seq: Command, run: Path
) -> None:
    typed = "--length-ratio", 3, "--json"
    free = [json.loads(line) for line in seq2seq("translate", run, *typed, *SENTENCES).lines]
    ended = seq2seq("translate", run, *typed, "--max-length", 4, *SENTENCES)
    capped = [json.loads(line) for line in ended.lines]
    assert {len(one["tokens"]) for one in free} - {1, 2, 3, 4}, "else there is nothing to bound"
    assert max(len(one["tokens"]) for one in capped) == 4
    assert f"cut off at the length limit: {sum(one['truncated'] for one in capped)} " in ended.err


def test_without_a_terminal_progress_is_shown_as_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even before the first result is there."""
    monkeypatch.setattr(progress, "SILENCE", 0.001)
    monkeypatch.setattr(sys, "stderr", io.StringIO())

    def results() -> Iterator[str]:
        for line in ("0 lines, 0.0/s\n", "1 line, "):
            while line not in sys.stderr.getvalue():  # type: ignore[attr-defined]
                time.sleep(0.001)
            yield line

    before = set(threading.enumerate())
    unknown: Any = SimpleNamespace(size=None, bytes=0)
    assert len(list(status.with_progress(results(), unknown))) == 2
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("typed", [(), ("--quiet",)])
def test_quiet_shows_no_progress(
    seq2seq: Command, run: Path, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...]
) -> None:
    monkeypatch.setattr(progress, "SILENCE", 0.001)
    ended = seq2seq("translate", run, *typed, stdin="\n".join(SENTENCES).encode())
    assert len(ended.lines) == len(SENTENCES)
    assert bool(re.search(r"^[\d,]+ lines, [\d,.]+/s$", ended.err, re.M)) == (not typed)


def test_batch_size_limits_the_batch_and_changes_no_translation(
    seq2seq: Command, run: Path
) -> None:
    expected = seq2seq("translate", run, "--stats", *SENTENCES)
    for size in (1, 5):
        ended = seq2seq("translate", run, "--stats", "--batch-size", size, *SENTENCES)
        assert ended.lines == expected.lines
        (rows,) = re.findall(r"steps of ([\d.]+) hypotheses", ended.err)
        assert 0 < float(rows) <= 3 * size < 3 * len(SENTENCES)  # a beam of 3
    assert float(*re.findall(r"steps of ([\d.]+) hypotheses", expected.err)) > 3 * 5


def test_a_translation_is_always_one_line(
    seq2seq: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokenizer, "decode_batch", lambda _, rows: ["a\nb\r\nc"] * len(rows))
    assert seq2seq("translate", run, "Ja.").lines == ["a b  c"]


def test_several_hypotheses_are_printed_with_line_score_and_text(
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


def test_as_many_hypotheses_as_beams_are_printed(seq2seq: Command, run: Path) -> None:
    assert len(seq2seq("translate", run, "--nbest", 4, "--beam-size", 4, "Ja.").lines) == 4


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("--nbest 4", "--nbest 4 needs as many beams: add --beam-size 4"),
        ("--device nonsense", "device 'nonsense' cannot be used here"),
        ("--device meta", "device 'meta' cannot be used here"),
        pytest.param("--device cuda", "device 'cuda' cannot", marks=without_gpu),
        ("--max-source 1", "--max-source 1 leaves no room"),
        ("--beam-size 0", "--beam-size=0 should be at least 1"),
        ("--beam-size 100000", "--beam-size=100000 should be at least 1 and at most 1,000"),
        ("--beam-size 500", "500 beams are more than the 400 pieces that this model can write"),
        ("--length-penalty 99", "--length-penalty=99 should be at least 0 and at most 10"),
        ("--batch-size 99999", "batch_size=99999 should be at least 1 and at most 10,000"),
        ("--max-length 3 --min-length-extra 4", "min_length_extra=4 should be at most max_length"),
        ("--sample --nbest 2000", "--nbest=2000 should be at least 1 and at most 1,000"),
        (
            "--temperature 0",
            "--temperature=0 should be at least 0.001 and at most 1,000; for the "
            "most probable pieces use greedy search",
        ),
    ],
)
def test_impossible_options_are_refused_in_one_message(
    seq2seq: Command, run: Path, typed: str, words: str
) -> None:
    assert refused(seq2seq("translate", run, "Ja.", *typed.split())).startswith(words)


def test_a_closed_standard_input_is_one_message(tmp_path: Path) -> None:
    """`seq2seq translate RUN <&-`: as from a service that has no input; no model is needed."""
    command = [sys.executable, "-m", "seq2seq", "translate", str(tmp_path)]
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
    ended = subprocess.run(closed, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: there is nothing to translate")
    assert len(ended.stderr.splitlines()) == 1


def test_a_sentence_imports_no_more_than_it_needs(run: Path) -> None:
    """Start-up: torch, NumPy, the tokenizer and our own modules; no process is started."""
    code = f"""
import multiprocessing.process, sys
import torch
torch.load({str(run / "best.ckpt")!r}, weights_only=True)
before = set(sys.modules)
multiprocessing.process.BaseProcess.start = None
from seq2seq.cli.main import main
sys.argv[1:] = ["translate", {str(run)!r}, "Ja."]
try:
    main()
finally:
    print(*(set(sys.modules) - before))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    translation, modules = ended.stdout.splitlines()
    assert translation
    roots = {name.split(".")[0] for name in modules.split()} - sys.stdlib_module_names
    assert roots == {"seq2seq", "numpy", "tokenizers"}


def test_files_are_read_and_written_by_name(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_text("Ja.\n\nNein.\n", encoding="utf-8")
    assert seq2seq("translate", run, "-i", source, "-o", output).out == b""
    expected = seq2seq("translate", run, stdin=source.read_bytes()).out
    assert output.read_bytes() == expected


def test_json_gives_score_confidence_and_the_probability_of_each_piece(
    seq2seq: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = Translator.load(run).target
    (ids,) = pieces.encode_batch(["One dog"])
    logp = [-0.25 * n for n in range(len(ids) + 1)]
    hypotheses = [Hypothesis(ids, -1.5, sum(logp), token_logp=logp), Hypothesis([], -2.0, -2.0)]
    monkeypatch.setattr(Engine, "advance", lambda engine: answer_all(hypotheses, engine))
    ended = seq2seq("translate", run, "--json", stdin=b"Ein Hund.\n\n")
    first, second = map(json.loads, ended.lines)
    assert "".join(piece for piece, _ in first["tokens"]) == "One dog</s>"
    assert [value for _, value in first["tokens"]] == logp
    assert first["confidence"] == pytest.approx(math.exp(sum(logp) / len(logp)))
    assert (first["line"], first["text"], first["score"]) == (1, "One dog", -1.5)
    assert first["truncated"] is False
    nothing = {"score": None, "confidence": None, "truncated": None, "tokens": None}
    assert second == {"line": 2, "text": "", **nothing}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--temperature", "0.7", "--beam-size", "5"), "--beam-size is for beam search"),
        (("--sample", "--coverage", "0.2"), "--coverage is for beam search, --sam"),
        (("--workers", "2", "--device", "cuda"), "--workers is for CPU cores"),
        (("--input", "x"), "give texts or --input, not both"),
        (("-o", "no/where"), "there is no folder no"),
        (("-o", "x.en.gz"), "output is not compressed: -o x.en"),
    ],
)
def test_options_that_exclude_each_other_are_refused_before_anything_is_read(
    seq2seq: Command, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(seq2seq("translate", "no/such/run", "Ja.", *arguments))


def test_a_program_that_writes_a_line_gets_its_translation(run: Path) -> None:
    with started("translate", run, "--workers", 2) as process:
        assert process.stdin and process.stdout and process.stderr
        answers = []
        for text in (b"Ja.\n", b"\n", b"Nein.\n"):
            process.stdin.write(text)
            process.stdin.flush()
            answers.append(process.stdout.readline())
        assert [bool(answer.strip()) for answer in answers] == [True, False, True]
        process.stdin.close()
        ended = Ended(process.wait(timeout=60), b"", process.stderr.read().decode())
        assert (ended.code, ended.complaints) == (0, "")


def in_group(group: int) -> list[str]:
    """The live processes of a group."""
    pids = []
    for process in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = process.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state not in "ZX":
                pids.append(process.parent.name)
    return pids


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are not in /proc")
def test_an_interrupt_of_workers_leaves_whole_lines_and_no_process(
    run: Path, tmp_path: Path
) -> None:
    """Ctrl-C at a terminal goes to all processes of the command."""
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_bytes(b"Ja.\n" * 50_000)
    command = [sys.executable, "-m", "seq2seq", "translate", run, "--workers", "2", "-i", source]
    with (
        output.open("wb") as out,
        subprocess.Popen(
            [*command, "--beam-size", "1"], stdout=out, stderr=subprocess.PIPE, process_group=0
        ) as process,
    ):
        for _ in range(600):
            if output.stat().st_size:
                break
            time.sleep(0.1)
        assert len(in_group(process.pid)) >= 3
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr
        assert (process.wait(timeout=60), process.stderr.read()) == (130, b"")
    for _ in range(50):
        if not (left := in_group(process.pid)):
            break
        time.sleep(0.1)
    assert not left
    lines = output.read_bytes().splitlines(keepends=True)
    assert 0 < len(lines) < 50_000
    assert set(lines) == {lines[0]} and lines[0].endswith(b"\n")


def watched(run: Path, source: Path, *arguments: str) -> str:
    """What `translate -i SOURCE` shows on a terminal that its translations do not go to."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "seq2seq", "translate", str(run), "-i", str(source)]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.DEVNULL, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # of Linux, when the other side has gone
            while read := os.read(ours, 2**16):
                shown += read
        assert process.wait(timeout=60) == 0
    os.close(ours)
    return shown.decode()


@pytest.mark.slow
def test_a_terminal_shows_how_fast_it_goes(run: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"Ja.\n" * 50)
    speed = re.compile(r"\d lines, [\d,.]+/s")
    assert speed.search(watched(run, source))
    assert not speed.search(watched(run, source, "--quiet"))
