"""What translations must be like, as it is typed: JSON lines, glossaries, placeholders, risk."""

import json
from pathlib import Path

import pytest
from helpers.commands import SENTENCES, Command, refused
from helpers.tiny_runs import demo_lines
from sacrebleu.metrics.chrf import CHRF

from seq2seq.decoding.constraints.spelling import count_occurrences

REFERENCES = demo_lines("test", "en", 12)
BEAMS = "--beam-size", 4


def as_lines(requests: list[object]) -> bytes:
    return "".join(f"{json.dumps(request)}\n" for request in requests).encode()


def test_each_json_line_has_its_own_requirements(seq2seq: Command, run: Path) -> None:
    first, second, third = SENTENCES[:3]
    requests: list[object] = [
        {"text": first, "must": [["dog", "dogs"], "green"]},
        {"text": second, "must_not": ["The"]},
        {"text": third, "prefix": "A c"},
        {"text": third},
    ]
    ended = seq2seq("translate", run, "--json-input", *BEAMS, stdin=as_lines(requests))
    must, must_not, begun, plain = ended.lines
    assert ended.code == 0
    assert count_occurrences("dog", must) + count_occurrences("dogs", must)
    assert count_occurrences("green", must)
    assert not count_occurrences("The", must_not) and begun.startswith("A c")
    assert [plain] == seq2seq("translate", run, third, *BEAMS).lines


def test_a_refused_json_line_is_empty_and_other_lines_are_translated(
    seq2seq: Command, run: Path
) -> None:
    requests: list[object] = [
        {"text": SENTENCES[0]},
        ["no", "object"],
        {"text": SENTENCES[1], "must": "dog"},
        {"text": SENTENCES[1], "must": ["dog"]},
        {"text": SENTENCES[2]},
    ]
    halves = b'{"text": "\\ud800"}\n'
    deep, long = b"[" * 100_000 + b"\n", b'{"text": ' + b"1" * 5000 + b"}\n"
    stdin = b"{\n\n" + as_lines(requests) + halves + deep + long
    ended = seq2seq("translate", run, "--json-input", "--beam-size", 1, stdin=stdin)
    filled = [False, False, True, False, False, False, True, False, False, False]
    assert ended.code == 1 and [bool(line) for line in ended.lines] == filled
    for line_no, message in [
        (1, "not JSON"),
        (4, "not an object with a text"),
        (5, "must should be a list"),
        (8, "not JSON"),
        (9, "not JSON"),
        (10, "not JSON"),
        (6, "needs a search with several beams: beam_size=5"),
    ]:
        assert f"warning: line {line_no}: " in ended.err and message in ended.err


def test_a_glossary_and_kept_placeholders_are_obeyed(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    word = SENTENCES[0].split()[0]
    glossary = tmp_path / "terms.tsv"
    glossary.write_text(f"{word.upper()}\tzebra\tzebras\n", encoding="utf-8")
    typed = "--glossary", glossary, "--keep", "placeholders", *BEAMS
    text = f"{SENTENCES[0]} {{name}} %s"
    (plain,) = seq2seq("translate", run, text, *typed).lines
    assert plain.count("{name}") == plain.count("%s") == 1 and "zebra" not in plain
    (line,) = seq2seq("translate", run, text, *typed, "--ignore-case").lines
    assert "zebra" in line and line.count("{name}") == line.count("%s") == 1
    (kept,) = seq2seq("translate", run, f"{SENTENCES[0]} abcabc", "--keep", "(abc)+", *BEAMS).lines
    assert count_occurrences("abcabc", kept) == 1
    # In evaluation, too.
    out = tmp_path / "out.en"
    seq2seq("evaluate", run, *test_set, *typed, "--ignore-case", "-o", out)
    assert "zebra" in out.read_text(encoding="utf-8").splitlines()[0]


def test_impossible_requirements_are_reported_for_their_line(seq2seq: Command, run: Path) -> None:
    requests: list[object] = [
        {"text": SENTENCES[0]},
        {"text": SENTENCES[0], "must": ["dog"], "must_not": ["dog"]},
    ]
    ended = seq2seq("translate", run, "--json-input", "--json", *BEAMS, stdin=as_lines(requests))
    plain, banned = map(json.loads, ended.lines)
    assert ended.code == 0 and "unmet" not in plain and banned["unmet"] == ["dog"]
    assert (
        "warning: line 2 has no translation that meets all requirements; left out: 'dog'"
        in ended.err
    )
    assert not count_occurrences("dog", banned["text"])


def test_two_lines_with_one_term_are_alternatives_and_phrases_are_literal(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    glossary, word = tmp_path / "terms.tsv", SENTENCES[0].split()[0]
    glossary.write_text(f"{word}\tzebra\n{word}\tpuppy\n", encoding="utf-8")
    ended = seq2seq("translate", run, SENTENCES[0], "--glossary", glossary, *BEAMS)
    assert ("zebra" in ended.out.decode()) + ("puppy" in ended.out.decode()) == 1
    glossary.write_text(f"{word}\tC:\\temp\\new\n", encoding="utf-8")
    ended = seq2seq("translate", run, SENTENCES[0], "--glossary", glossary, *BEAMS)
    assert "C:\\temp\\new" in ended.out.decode()
    # What cannot be is named as it was typed.
    request = {"text": SENTENCES[0], "must": ["C:\\temp"], "must_not": ["C:\\temp"]}
    ended = seq2seq("translate", run, "--json-input", *BEAMS, stdin=as_lines([request]))
    assert "left out: 'C:\\temp'" in ended.err


def test_minimum_risk_equals_that_computed_with_sacrebleu(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    typed = "--sample", "--temperature", 2, "--seed", 3
    samples = seq2seq("translate", run, SENTENCES[0], *typed, "--nbest", 8)
    texts = [line.split("\t")[2] for line in samples.lines]
    chrf = CHRF()
    risks = [sum(chrf.sentence_score(text, [other]).score for other in texts) for text in texts]
    best = texts[max(range(8), key=lambda i: round(risks[i], 9))]
    assert len(set(texts)) > 4
    assert seq2seq("translate", run, SENTENCES[0], *typed, "--mbr", 8).lines == [best]
    out = tmp_path / "out.en"
    seq2seq("evaluate", run, *test_set, *typed, "--mbr", 8, "-o", out)
    assert out.read_text(encoding="utf-8").splitlines()[0] == best


def test_minimum_risk_chooses_among_translations_that_meet_requirements(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text(f"{SENTENCES[0].split()[0]}\tpuppy\n", encoding="utf-8")
    typed = "--glossary", glossary, *BEAMS, "--max-length", 7, "--nbest", 4, "--json"
    rows = seq2seq("translate", run, SENTENCES[0], *typed, "--mbr", 4).lines
    best, *others = map(json.loads, rows)
    assert "unmet" not in best and "puppy" in best["text"]
    assert all(("puppy" in each["text"]) != ("unmet" in each) for each in others)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("--keep", "("), "--keep '(' is not a regular expression"),
        (("--keep", "x", "--beam-size", "1"), "needs a search with several beams: beam_size=5"),
        (("--keep", "x", "--sample"), "needs a search with several beams"),
        (("--glossary", "nowhere.tsv"), "nowhere.tsv"),
        (("--ignore-case",), "--ignore-case is for the terms of a --glossary: add one"),
        (("--mbr", "8", "--beam-size", "5"), "--mbr 8 needs as many beams: add --beam-size 8"),
        (("--keep", ""), "--keep should be a regular expression, or placeholders: it is blank"),
        (("--mbr", "64", "--nbest", "100", "--beam-size", "5"), "--nbest 100 needs as many beams"),
        (("--epsilon", "2"), "--epsilon=2 should be"),
        (("--beam-size", "4", "--beam-groups", "3"), "beam_groups=3 should divide the 4 beams"),
    ],
)
def test_impossible_options_for_requirements_are_refused(
    seq2seq: Command, run: Path, typed: tuple[str, ...], message: str
) -> None:
    assert message in refused(seq2seq("translate", run, SENTENCES[0], *typed))


def test_a_pattern_that_would_not_end_is_refused_with_its_line(seq2seq: Command, run: Path) -> None:
    stdin = f"{SENTENCES[0]}\n{'a' * 60}b\n"
    lines = as_lines([{"text": line} for line in stdin.splitlines()])
    for more, given in (((), stdin.encode()), (("--json-input",), lines)):
        ended = seq2seq("translate", run, "--keep", "(a+)+$", *BEAMS, *more, stdin=given)
        message = refused(ended)
        assert message.startswith("line 2: --keep '(a+)+$' takes more than 1 s")
        assert "(?:a+)++" in message
    for pattern in ("a{99999999999999999999}", "(" * 5000):
        ended = seq2seq("translate", run, "text", "--keep", pattern, *BEAMS)
        assert "is not a regular expression" in refused(ended)


def test_lines_without_words_are_copied_on_request(seq2seq: Command, run: Path) -> None:
    lines = ["2019", "A-17/3", "", " mail@example.org ", SENTENCES[0], "{name}: %s"]
    stdin = "".join(f"{line}\n" for line in lines).encode()
    plain = seq2seq("translate", run, *BEAMS, stdin=stdin)
    ended = seq2seq(
        "translate", run, *BEAMS, "--copy-numbers", "--keep", "placeholders", stdin=stdin
    )
    assert ended.code == 0
    assert ended.lines == [
        *("2019", "A-17/3", "", "mail@example.org"),
        plain.lines[4],
        "{name}: %s",
    ]
    assert plain.lines[0] != "2019"
    # What is asked of a translation takes precedence.
    request: list[object] = [{"text": "2019", "must": ["dog"]}, {"text": "2019"}]
    typed = "translate", run, *BEAMS, "--copy-numbers", "--json-input"
    asked, copied = seq2seq(*typed, stdin=as_lines(request)).lines
    assert count_occurrences("dog", asked) and copied == "2019"
    (entry,) = seq2seq("translate", run, "--copy-numbers", "--json", "2019").lines
    assert json.loads(entry)["text"] == "2019" and json.loads(entry)["tokens"] == []


def test_a_placeholder_that_cannot_be_kept_is_named_with_exit_code_1(
    seq2seq: Command, run: Path
) -> None:
    name = "{" + "some_very_long_name" * 4 + "}"
    typed = "--max-length", 6, "--keep", "placeholders", *BEAMS
    ended = seq2seq("translate", run, f"{name} {SENTENCES[0]}", *typed)
    assert ended.code == 1 and f"left out: '{name}'" in ended.err
    document = seq2seq("translate", run, "--document", f"{name} {SENTENCES[0]}", *typed)
    assert document.code == 1 and name in document.err
