"""`seq2seq clean`: what is written, what is refused, and what a kill leaves."""

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import browser
from helpers.browser import Browser
from helpers.commands import Command, refused
from helpers.tiny_runs import demo_lines

from seq2seq.cli import clean
from seq2seq.data.text.formats import find_format
from seq2seq.data.text.leaks import Leaks, count_leaks

window = browser.window
PAIRS = list(zip(demo_lines("train", "de", 60), demo_lines("train", "en", 60), strict=True))
BAD = {
    "min_words": ("Ein Hund.", ""),
    "max_ratio": ("Ja.", "a b c d e f g"),
    "copies": ("Berlin", "Berlin"),
    "numbers": ("Im Jahr 2010.", "In 2011."),
    "duplicates": PAIRS[3],
}
MIXED = [*PAIRS[:20], *BAD.values(), *PAIRS[20:]]
LANGUAGES = ("--source", "de", "--target", "en")


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> Path:
    for side, suffix in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
    return folder / name


def read_pairs(path: Path) -> list[tuple[str, str]]:
    return list(find_format(str(path), "de", "en", "test").pairs())


def read_ledger(path: Path) -> dict[str, object]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_pairs(tmp_path, "train", MIXED)


def test_kept_pairs_stay_in_order_and_others_are_counted_once(
    seq2seq: Command, corpus: Path, tmp_path: Path
) -> None:
    ended = seq2seq("clean", corpus, *LANGUAGES, "-o", tmp_path / "clean")
    assert ended.code == 0 and f"{len(PAIRS)} of {len(MIXED)} pairs" in ended.lines[0]
    assert read_pairs(tmp_path / "clean") == PAIRS
    ledger = read_ledger(tmp_path / "clean.json")
    numbers = {name: [21 + i] for i, name in enumerate(BAD)}
    expected = {name: {"count": 1, "pairs": found} for name, found in numbers.items()}
    assert ledger["left_out"] == expected
    assert (ledger["read"], ledger["kept"]) == (len(MIXED), len(PAIRS))
    files = [*ledger["inputs"], *ledger["outputs"]]  # type: ignore[misc]
    assert [Path(file["path"]).name for file in files] == [
        *("train.de", "train.en", "clean.de", "clean.en")
    ]
    for file in files:
        content = Path(file["path"]).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (
            file["sha256"],
            file["bytes"],
        )


def test_a_second_run_writes_the_same_bytes(seq2seq: Command, corpus: Path, tmp_path: Path) -> None:
    typed = ("clean", corpus, *LANGUAGES, "-o", tmp_path / "a", "--page", tmp_path / "a.html")
    names = ("a.de", "a.en", "a.json", "a.html")
    assert seq2seq(*typed).code == 0
    before = [(tmp_path / name).read_bytes() for name in names]
    assert seq2seq(*typed).code == 0
    assert [(tmp_path / name).read_bytes() for name in names] == before


@pytest.mark.parametrize("suffix", ["", ".tsv", ".jsonl"])
def test_every_format_holds_the_same_pairs(
    seq2seq: Command, corpus: Path, tmp_path: Path, suffix: str
) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    assert seq2seq("clean", corpus, *LANGUAGES, "-o", first).code == 0
    assert seq2seq("clean", first, *LANGUAGES, "-o", second).code == 0
    assert read_pairs(first) == read_pairs(second) == PAIRS
    assert read_ledger(tmp_path / "second.json")["left_out"] == {}


def test_several_corpora_are_read_as_one(seq2seq: Command, tmp_path: Path) -> None:
    write_pairs(tmp_path, "a", MIXED[:30])
    zipped = tmp_path / "b.jsonl.gz"
    rows = [json.dumps({"de": source, "en": target}) for source, target in MIXED[30:]]
    zipped.write_bytes(gzip.compress("\n".join(rows).encode()))
    pair = f"[{tmp_path / 'a.de'},{tmp_path / 'a.en'}]"
    assert seq2seq("clean", pair, zipped, *LANGUAGES, "-o", tmp_path / "c.tsv").code == 0
    assert read_pairs(tmp_path / "c.tsv") == PAIRS


def test_every_rule_can_be_switched_off(seq2seq: Command, corpus: Path, tmp_path: Path) -> None:
    printed = seq2seq("clean", "--print-rules").lines
    options = [line.split()[0] for line in printed]
    assert {"--max-words", "--numbers", "--duplicates", "--best"} < set(options)
    off = [word for option in options for word in (option, "off")]
    assert seq2seq("clean", corpus, *LANGUAGES, "-o", tmp_path / "all", *off).code == 0
    assert read_pairs(tmp_path / "all") == MIXED


def test_pairs_that_share_a_side_with_held_out_text_are_left_out(
    seq2seq: Command, tmp_path: Path
) -> None:
    held_out, others = PAIRS[:10], PAIRS[10:]
    copies = [
        (held_out[0][0].upper(), "Something else, nothing more."),
        ("Etwas anderes, nicht mehr.", held_out[1][1].replace(" ", "  ")),
        held_out[2],
    ]
    mixed = [*others[:5], *copies, *others[5:]]
    clean_others = [
        pair for pair in mixed if count_leaks(held_out, [pair]) == Leaks() and pair not in copies
    ]
    corpus, tests = write_pairs(tmp_path, "train", mixed), write_pairs(tmp_path, "test", held_out)
    ended = seq2seq("clean", corpus, *LANGUAGES, "--held-out", tests, "-o", tmp_path / "clean")
    assert ended.code == 0 and any("--held-out" in line for line in ended.lines)
    kept = read_pairs(tmp_path / "clean")
    assert kept == clean_others and count_leaks(held_out, kept) == Leaks()
    ledger = read_ledger(tmp_path / "clean.json")
    left_out = ledger["left_out"]["held_out"]  # type: ignore[index]
    assert left_out["count"] == len(mixed) - len(kept) >= len(copies)
    assert ledger["held_out"] == [str(tests)]
    options = ("clean", corpus, *LANGUAGES, "--held-out", tests, "-o", tests)
    assert "test.de" in refused(seq2seq(*options))


def test_printed_rules_are_options(seq2seq: Command, corpus: Path, tmp_path: Path) -> None:
    typed = ("clean", corpus, *LANGUAGES, "-o", tmp_path / "a", "--max-words", 9)
    printed = [line.split()[:2] for line in seq2seq(*typed, "--print-rules").lines]
    assert ["--max-words", "9"] in printed
    again = [word for words in printed for word in words]
    assert seq2seq("clean", corpus, *LANGUAGES, "-o", tmp_path / "b", *again).code == 0
    assert seq2seq(*typed).code == 0
    assert read_pairs(tmp_path / "a") == read_pairs(tmp_path / "b") != PAIRS


def test_the_best_by_scores_of_both_directions_are_kept(seq2seq: Command, tmp_path: Path) -> None:
    path = write_pairs(tmp_path, "four", PAIRS[:4])
    rows = [{"log_probability": -2.0 * n, "pieces": n} for n in (1, 2, 3)]
    lines = [*map(json.dumps, rows), '{"log_probability": null, "pieces": null, "reason": "long"}']
    (tmp_path / "forward").write_text("\n".join(lines))
    (tmp_path / "backward").write_text("-2.5\n-9\n-2\n-2\n")
    scores = ("--scores", tmp_path / "forward", "--scores", tmp_path / "backward")
    typed = ("clean", path, *LANGUAGES, "-o", tmp_path / "best", "--best", 0.5)
    assert seq2seq(*typed, *scores).code == 0
    assert read_pairs(tmp_path / "best") == [PAIRS[0], PAIRS[2]]
    (tmp_path / "backward").write_text("-2.5\n-9\n-2\n")
    assert "backward ends before line 4" in refused(seq2seq(*typed, *scores))
    (tmp_path / "forward").write_text("-1\nnan\n")
    assert "forward, line 2: 'nan' is not a number" in refused(seq2seq(*typed, *scores[:2]))
    assert "--best needs scores" in refused(seq2seq(*typed))


def test_among_equal_targets_the_best_score_is_kept(seq2seq: Command, tmp_path: Path) -> None:
    pairs = [("Ein Hund.", "A dog."), ("Der Hund.", "A dog."), ("Eine Katze.", "A cat.")]
    path = write_pairs(tmp_path, "three", pairs)
    (tmp_path / "scores").write_text("0.1\n0.9\n0.5\n")
    typed = ("clean", path, *LANGUAGES, "-o", tmp_path / "out", "--duplicates", "target")
    assert seq2seq(*typed).code == 0
    assert read_pairs(tmp_path / "out") == [pairs[0], pairs[2]]
    assert seq2seq(*typed, "--scores", tmp_path / "scores").code == 0
    assert read_pairs(tmp_path / "out") == pairs[1:]


def test_a_wrong_language_is_found(seq2seq: Command, tmp_path: Path) -> None:
    french = ("Le chien court dans le jardin avec ses amis.", PAIRS[0][1])
    path = write_pairs(tmp_path, "mixed", [*PAIRS[:9], french])
    typed = ("clean", path, *LANGUAGES, "-o", tmp_path / "out", "--language", "on")
    assert seq2seq(*typed).code == 0
    assert read_pairs(tmp_path / "out") == PAIRS[:9]
    words = refused(seq2seq(*typed, "--languages", "nv-en"))
    assert "py3langid knows no 'nv'" in words


CHINESE = [
    ("我们今天去公园看花。", "We go to the park today to see the flowers."),
    ("他昨天买了三本书，都很有意思。", "He bought three books yesterday, all interesting."),
    ("请把窗户打开，房间里太热了。", "Please open the window, it is too hot in the room."),
    ("这里没有人。", "There is nobody here at all, as you can see."),
]


def write_chinese(folder: Path, source: str, target: str) -> Path:
    for side, suffix in enumerate((source, target)):
        text = "".join(f"{pair[side]}\n" for pair in CHINESE)
        (folder / f"chinese.{suffix}").write_text(text, encoding="utf-8")
    return folder / "chinese"


@pytest.mark.parametrize("source", ["zho_Hans", "cmn", "zh_CN", "yue", "zh"])
def test_columns_are_named_after_languages_in_any_form(
    seq2seq: Command, tmp_path: Path, source: str
) -> None:
    path = write_chinese(tmp_path, source, "eng_Latn")
    typed = ("--source", source, "--target", "eng_Latn", "-o", tmp_path / "out")
    ended = seq2seq("clean", path, *typed)
    assert ended.code == 0 and "4 of 4 pairs" in ended.lines[0] and not ended.err


def test_columns_not_named_after_languages_are_reported_unless_languages_are_given(
    seq2seq: Command, tmp_path: Path
) -> None:
    path = write_chinese(tmp_path, "src", "trg")
    typed = ("clean", path, "--source", "src", "--target", "trg", "-o", tmp_path / "out")
    ended = seq2seq(*typed)
    assert ended.code == 1  # nothing is left
    assert "no language has the code 'src' or 'trg'" in ended.err
    assert "--languages de-en" in ended.err
    ended = seq2seq(*typed, "--languages", "zho_Hans-eng_Latn")
    assert ended.code == 0 and "4 of 4 pairs" in ended.lines[0] and not ended.err
    words = refused(seq2seq(*typed, "--languages", "zh-xx"))
    assert "no language has the code 'xx'" in words and "zho_Hans" in words


def test_a_rule_that_leaves_out_more_than_half_is_reported_with_examples(
    seq2seq: Command, tmp_path: Path
) -> None:
    wrong = [(f"Im Jahr {n} war es.", f"It was in {n + 1}.") for n in range(2000, 2010)]
    for good, is_said in ((9, True), (10, False)):
        path = write_pairs(tmp_path, "half", [*PAIRS[:good], *wrong])
        ended = seq2seq("clean", path, *LANGUAGES, "-o", tmp_path / "out")
        assert ended.code == 0
        assert (f"--numbers left out 10 of {10 + good} pairs" in ended.err) == is_said
        examples = [n for n, (source, _) in enumerate(wrong) if source in ended.err]
        assert len(examples) == 3 * is_said
        assert all(f"{good + n + 1}: {' | '.join(wrong[n])}" in ended.err for n in examples)


def test_examples_show_no_control_characters(seq2seq: Command, tmp_path: Path) -> None:
    path = write_pairs(tmp_path, "bad", [(f"Ein\x1b[2J Hund {n}", f"A dog {n}") for n in range(3)])
    ended = seq2seq("clean", path, *LANGUAGES, "-o", tmp_path / "out")
    assert ended.code == 1 and "--invalid left out 3 of 3 pairs" in ended.err
    assert "\x1b" not in ended.err


def test_the_rule_best_is_never_reported_for_its_share(seq2seq: Command, tmp_path: Path) -> None:
    path = write_pairs(tmp_path, "best", PAIRS[:10])
    (tmp_path / "scores").write_text("".join(f"{n}\n" for n in range(10)))
    typed = ("--scores", tmp_path / "scores", "--best", 0.2)
    ended = seq2seq("clean", path, *LANGUAGES, "-o", tmp_path / "out", *typed)
    assert ended.code == 0 and not ended.err and read_pairs(tmp_path / "out") == PAIRS[8:10]


def test_without_py3langid_the_command_says_what_to_type(
    seq2seq: Command, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2seq.serving.languages.load_detector", lambda: None)
    typed = ("clean", corpus, *LANGUAGES, "-o", tmp_path / "out", "--language", "on")
    assert "pip install 'seq2seq-attention-zoo[detect]'" in refused(seq2seq(*typed))
    assert not (tmp_path / "out.de").exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"Ein Hund.\n\xff\n", ".de, line 2, byte 1: 0xff is not UTF-8"),
        (b"Ein Hund.\n\xed\xa0\x80\n", ".de, line 2, byte 1: 0xed is not UTF-8"),
        (b"Ein Hund.\n" + b"a" * (2**24 + 1) + b"\n", ".de, line 2: longer than"),
        (b"Ein Hund.\n", ".de has 1 line(s)"),
        (b"", ".de is empty"),
        (b"\0\0\0\0a\n", ".de is not UTF-8 text"),
        (gzip.compress(b"Ein Hund.\nJa.\n")[:-4], ".de is not a whole gzip file"),
    ],
    ids=["bytes", "surrogate", "long", "short", "empty", "nul", "cut"],
)
def test_hostile_files_are_refused_with_file_and_line(
    seq2seq: Command, tmp_path: Path, source: bytes, said: str
) -> None:
    (tmp_path / "a.de").write_bytes(source)
    (tmp_path / "a.en").write_text("A dog.\nYes.\n")
    (tmp_path / "out.de").write_text("before\n")
    ended = seq2seq("clean", tmp_path / "a", *LANGUAGES, "-o", tmp_path / "out")
    assert f"{tmp_path / 'a'}{said}" in refused(ended)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en", "out.de"]
    assert (tmp_path / "out.de").read_text() == "before\n"


def test_a_line_of_two_megabytes_is_left_out_in_seconds(seq2seq: Command, tmp_path: Path) -> None:
    hostile = ["a" * 2**21, "{" * 2**21, "1," * 2**20, "\0", "1" * 2**21]
    path = write_pairs(tmp_path, "a", [*((text, "A dog.") for text in hostile), PAIRS[0]])
    began = time.process_time()
    limits = ("--max-characters", "off", "--max-word-length", "off", "--max-words", "off")
    for options in ((), limits):
        ended = seq2seq("clean", path, *LANGUAGES, "-o", tmp_path / "out", *options)
        assert ended.code == 0
        assert PAIRS[0] in read_pairs(tmp_path / "out") and "\0" not in str(
            read_pairs(tmp_path / "out")
        )
    assert time.process_time() - began < 60


def test_a_lone_surrogate_and_a_line_end_of_json_do_not_reach_the_output(
    seq2seq: Command, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"de": "Ein\nHund", "en": "A dog"}, {"de": "Ja.", "en": "Yes."}]
    path.write_text("\n".join(map(json.dumps, rows)))
    typed = ("clean", path, *LANGUAGES, "-o")
    assert seq2seq(*typed, tmp_path / "out").code == 0
    assert read_pairs(tmp_path / "out") == [("Ja.", "Yes.")]
    words = refused(seq2seq(*typed, tmp_path / "out.tsv", "--invalid", "off"))
    assert "pair 1 has a tab or the end of a line" in words
    assert seq2seq(*typed, tmp_path / "out.jsonl", "--invalid", "off").code == 0
    assert read_pairs(tmp_path / "out.jsonl")[0] == ("Ein\nHund", "A dog")
    path.write_text('{"de": "\\ud800", "en": "A dog"}\n')
    assert "a.jsonl, line 1: a lone surrogate" in refused(seq2seq(*typed, tmp_path / "new"))


def test_impossible_options_of_clean_are_refused(
    seq2seq: Command, corpus: Path, tmp_path: Path
) -> None:
    out = ("-o", tmp_path / "out")
    assert "give a CORPUS" in refused(seq2seq("clean", *LANGUAGES, *out))
    assert "add --output" in refused(seq2seq("clean", corpus, *LANGUAGES))
    assert "would overwrite" in refused(seq2seq("clean", corpus, *LANGUAGES, "-o", corpus))
    for limit in ("few", "-3", "nan"):
        words = refused(seq2seq("clean", corpus, *LANGUAGES, *out, f"--max-words={limit}"))
        assert f"{limit} should be" in words
    table = tmp_path / "a.tsv"
    table.write_text("a\tb\nc\td\n")
    assert "Name another source" in refused(seq2seq("clean", table, *LANGUAGES, *out))
    both = ("--source", "x", "--target", "x")
    words = refused(seq2seq("clean", f"[{corpus}.de,{corpus}.en]", *both, *out))
    assert "should be different files" in words
    (tmp_path / "scores").write_text("1\n" * len(MIXED))
    typed = ("clean", corpus, *LANGUAGES, *out, "--scores", tmp_path / "scores")
    assert "for --best or --duplicates target" in refused(seq2seq(*typed))
    (tmp_path / "scores").write_text("1\n")
    assert "--scores: 1 lines, but 65 pairs" in refused(seq2seq(*typed, "--best", 0.5))
    for languages in ("de", "pt-BR-en", "de-", "de,en,fr"):
        words = refused(seq2seq("clean", corpus, *LANGUAGES, *out, "--languages", languages))
        assert f"--languages {languages} should be two" in words
    compressed = tmp_path / "out.tsv.gz"
    assert "is not compressed" in refused(seq2seq("clean", corpus, *LANGUAGES, "-o", compressed))


def test_numbered_columns_keep_their_numbers(seq2seq: Command, tmp_path: Path) -> None:
    rows = [f"{n}\t{source}\t{target}\n" for n, (source, target) in enumerate(PAIRS)]
    (tmp_path / "a.tsv").write_text("".join(rows), encoding="utf-8")
    typed = ("--source", 3, "--target", 2, "--languages", "en-de")
    for read, written in (("a", "b"), ("b", "c")):
        files = (tmp_path / f"{read}.tsv", "-o", tmp_path / f"{written}.tsv")
        assert seq2seq("clean", *files, *typed).code == 0
        found = find_format(str(tmp_path / f"{written}.tsv"), "2", "3", "test")
        assert list(found.pairs()) == PAIRS


def test_a_file_that_changes_while_it_is_judged_is_noticed(
    seq2seq: Command, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change_and_judge(*arguments: object) -> object:
        verdicts = judge(*arguments)
        write_pairs(tmp_path, "train", MIXED[::-1])
        return verdicts

    judge = clean.judge_corpora
    monkeypatch.setattr(clean, "judge_corpora", change_and_judge)
    words = refused(seq2seq("clean", corpus, *LANGUAGES, "-o", tmp_path / "out"))
    assert "a file has changed while it was read" in words
    assert not list(tmp_path.glob("out*"))


def test_a_ledger_replaces_only_a_ledger_of_the_same_command(
    seq2seq: Command, corpus: Path, tmp_path: Path
) -> None:
    ledger, typed = tmp_path / "out.json", ("clean", corpus, *LANGUAGES, "-o", tmp_path / "out")
    for content, said in (
        ('{"name": "a package"}', "no ledger"),
        ("[1]", "no ledger"),
        ('{"command": "score", "outputs": []}', "the ledger of seq2seq score"),
    ):
        ledger.write_text(content)
        assert f"{ledger}, which is {said}, would be replaced" in refused(seq2seq(*typed))
        assert ledger.read_text() == content and not (tmp_path / "out.de").exists()
    ledger.unlink()
    assert [seq2seq(*typed).code for _ in range(2)] == [0, 0]


def test_a_file_name_that_is_not_utf_8_is_written_to_the_ledger(
    seq2seq: Command, tmp_path: Path
) -> None:
    path = write_pairs(tmp_path, os.fsdecode(b"caf\xe9"), PAIRS)
    ended = seq2seq("clean", f"[{path}.de, {path}.en]", *LANGUAGES, "-o", tmp_path / "out")
    assert ended.code == 0
    inputs = read_ledger(tmp_path / "out.json")["inputs"]
    assert isinstance(inputs, list) and inputs[0]["path"] == f"{path}.de"


def test_a_killed_command_leaves_the_previous_output_intact(tmp_path: Path) -> None:
    path = write_pairs(tmp_path, "large", MIXED * 400)
    (tmp_path / "out.de").write_text("before\n")
    words = [sys.executable, "-m", "seq2seq", "clean", str(path), *LANGUAGES, "-o"]
    process = subprocess.Popen([*words, str(tmp_path / "out"), "--duplicates", "off"])
    until = time.monotonic() + 120
    while not list(tmp_path.glob(".out*.unfinished")):  # it is writing
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (tmp_path / "out.de").read_text() == "before\n"
    assert not (tmp_path / "out.json").exists()


def test_a_page_shows_each_rule_and_escapes_scripts(
    seq2seq: Command, corpus: Path, tmp_path: Path, window: Browser
) -> None:
    write_pairs(tmp_path, "train", [*MIXED, ("<script>alert(1)</script>", "none")])
    page = tmp_path / "clean.html"
    typed = ("clean", corpus, *LANGUAGES, "-o", tmp_path / "clean", "--page", page)
    assert seq2seq(*typed).code == 0
    window.open(page)
    headings = window.run("[...document.querySelectorAll('h2')].map(h => h.textContent)")
    assert set(headings) == {"Rules", "kept", *BAD, "placeholders"}
    assert "<script>alert(1)</script>" in window.run("document.body.textContent")
    assert window.requests == [page.as_uri()] and window.complaints == []
