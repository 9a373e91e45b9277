import io
import json
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from tiny_runs import TINY_MODEL, demo_lines, demo_run, save_model

from seq2seq.cli.lines import LONGEST_LINE, read_lines
from seq2seq.cli.main import main
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.translator import Translation, Translator

SENTENCES = demo_lines("test", "de", 12)


class Ended(NamedTuple):
    """What a command left behind."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """By LF alone, as every tool that counts lines does."""
        *lines, rest = self.out.decode().split("\n")
        assert rest == ""
        return lines


Command = Callable[..., Ended]


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_run(tmp_path_factory.getbasetemp())


@pytest.fixture
def seq2seq(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command line in this process."""

    def command(*arguments: object, stdin: bytes = b"") -> Ended:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
        monkeypatch.setattr(sys, "argv", ["seq2seq", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        with warnings.catch_warnings(), pytest.raises(SystemExit) as ended:
            warnings.simplefilter("always")
            main()
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.buffer.read())
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, texts[0], texts[1].decode())

    return command


def refused(ended: Ended) -> str:
    """The one message that a command ended in."""
    assert ended.code == 2 and ended.out == b""
    assert "Traceback" not in ended.err
    return ended.err.split("error: ", 1)[1]


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
    monkeypatch.setattr(
        Translator, "_translate", lambda _, texts, __: [[Translation("x", 0.0)]] * len(texts)
    )
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
    longest = b"x" * (LONGEST_LINE - 1)
    assert list(read_lines(io.BytesIO(longest + b"\n" + longest))) == [longest.decode()] * 2
    with pytest.warns(UserWarning, match="line 1 has 1,048,576 bytes or more"):
        assert list(read_lines(io.BytesIO(b"x" + longest + b"\nJa.\n"))) == [None, "Ja."]


def test_what_a_damaged_model_cannot_work_on_is_empty_and_the_exit_code_is_1(
    seq2seq: Command, tmp_path: Path
) -> None:
    save_model(tmp_path / "best.ckpt", *TINY_MODEL)
    content = torch.load(tmp_path / "best.ckpt", weights_only=True)
    name = next(name for name in content["state_dict"] if name.endswith("norm.weight"))
    content["state_dict"][name].fill_(torch.nan)
    torch.save(content, tmp_path / "best.ckpt")
    ended = seq2seq("translate", tmp_path, stdin=b"Ja.\n\nNein.\n")
    assert (ended.code, ended.out) == (1, b"\n\n\n")
    assert re.findall(r"line (\d) has no translation", ended.err) == ["1", "3"]
    source = tmp_path / "test.de"
    source.write_text("Ja.\n", encoding="utf-8")
    scored = seq2seq("evaluate", tmp_path, source, source)
    assert (scored.code, scored.lines[0]) == (1, "BLEU 0.0")
    assert "computes what is no number" in refused(seq2seq("align", tmp_path, "Ja.", "Yes."))
    links = tmp_path / "test.align"
    files = "--source", source, "--target", source, "-o", links
    aligned = seq2seq("align", tmp_path, *files)
    assert (aligned.code, links.read_bytes()) == (1, b"\n")
    assert "line 1 cannot be aligned: the model computes what is no number" in aligned.err
    assert "no finite probability" in seq2seq("score", tmp_path, source, source).lines[0]


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


def test_a_path_without_a_model_is_refused_in_one_message(seq2seq: Command, tmp_path: Path) -> None:
    assert "holds neither" in refused(seq2seq("translate", tmp_path, "Ja."))
    (tmp_path / "best.ckpt").write_bytes(b"")
    assert "is no checkpoint" in refused(seq2seq("translate", tmp_path, "Ja."))


@pytest.fixture
def test_set(tmp_path: Path) -> tuple[Path, Path]:
    """The sentences and their references, as files."""
    paths = tmp_path / "test.de", tmp_path / "test.en"
    for path, lines in zip(paths, (SENTENCES, demo_lines("test", "en", 12)), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def test_scores_are_those_of_sacrebleu_and_come_first(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    ended = seq2seq("evaluate", run, *test_set, "-o", tmp_path / "out.en")
    hypotheses = (tmp_path / "out.en").read_text(encoding="utf-8").splitlines()
    assert hypotheses == Translator.load(run).translate(SENTENCES)
    references = [demo_lines("test", "en", 12)]
    metrics = {"BLEU": BLEU(), "chrF": CHRF(), "TER": TER()}
    values = {
        name: metric.corpus_score(hypotheses, references).score for name, metric in metrics.items()
    }
    signatures = {name: str(metric.get_signature()) for name, metric in metrics.items()}
    assert ended.lines == [
        *(f"{name} {value:.1f}" for name, value in values.items()),
        *signatures.values(),
    ]
    (line,) = seq2seq("evaluate", run, *test_set, "--json").lines
    assert json.loads(line) == {
        name: {"score": values[name], "signature": signatures[name]} for name in metrics
    }


def test_a_file_of_translations_has_a_line_for_each_sentence(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokenizer, "decode_batch", lambda _, rows: ["a\nb\rc"] * len(rows))
    output = test_set[0].with_name("out.en")
    assert seq2seq("evaluate", run, *test_set, "-o", output).code == 0
    assert output.read_bytes() == b"a b c\n" * len(SENTENCES)


def test_files_that_do_not_match_are_refused_before_the_model_is_loaded(
    seq2seq: Command, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    source, reference = test_set
    reference.write_text("one line\n", encoding="utf-8")
    message = refused(seq2seq("evaluate", tmp_path / "no model", source, reference))
    assert f"lines of {source}: 12, of {reference}: 1." in message


def test_an_output_that_cannot_be_written_is_refused_before_the_model_is_loaded(
    seq2seq: Command, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    output = tmp_path / "nowhere" / "out.en"
    message = refused(seq2seq("evaluate", tmp_path / "no model", *test_set, "-o", output))
    assert f"there is no folder {output.parent}" in message


FIRST_BYTES = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF-"}


@pytest.mark.parametrize("suffix", FIRST_BYTES)
def test_an_alignment_is_drawn_in_the_format_of_its_name(
    seq2seq: Command, run: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / "maps" / f"map.{suffix}"
    ended = seq2seq("align", run, "Ein Hund läuft.", "A dog runs.", "-o", path, "--layer", 2)
    assert ended.lines == [f"{path}: decoder layer 2 of 2, all heads"]
    assert path.read_bytes().startswith(FIRST_BYTES[suffix])


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
        (("Ja.", "Yes.", "--layer", "0"), "layer 0 does not exist: there are 1 ... 2"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_message(
    seq2seq: Command, run: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(seq2seq("align", run, *arguments))


def test_a_model_that_looks_nowhere_is_refused_by_name(seq2seq: Command, tmp_path: Path) -> None:
    save_model(tmp_path / "best.ckpt", *TINY_MODEL, "attn=fixed")
    assert "attention 'fixed' has no weights" in refused(seq2seq("align", tmp_path, "Ja.", "Yes."))


def started(*arguments: object) -> subprocess.Popen[bytes]:
    """A command in a process of its own, with all its streams at hand."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "seq2seq", *map(str, arguments)]
    return subprocess.Popen(command, **pipes)  # type: ignore[call-overload, no-any-return]


def test_a_reader_that_leaves_gets_no_traceback(run: Path) -> None:
    """`seq2seq translate RUN | head -1`."""
    with started("translate", run, "--beam-size", "1") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(b"Ja.\n" * 20_000)
        process.stdin.close()
        assert process.stdout.readline().endswith(b"\n")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_an_interrupt_ends_without_a_traceback(run: Path) -> None:
    """Ctrl-C in the middle of a file; what was translated until then is there."""
    with started("translate", run, "--beam-size", "1") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(b"Ja.\n" * 4_000)  # two windows; a third is waited for
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(4_000)]
        process.send_signal(signal.SIGINT)
        assert (process.wait(timeout=60), process.stderr.read()) == (130, b"")
        assert all(line.endswith(b"\n") for line in lines)
