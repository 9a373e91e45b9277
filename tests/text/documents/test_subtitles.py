"""Subtitles (.srt and .vtt): cues keep their numbers and times, whatever their words become."""

import re
import time
import tracemalloc
from collections.abc import Callable
from datetime import timedelta

import pytest
from helpers.builders import every_other
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.contents import Contents, Cutter
from seq2seq.text.documents.files.formats import open_file

CUES = """1
00:00:01,000 --> 00:00:02,000
{\\an8}<i>Drei Wochen denkt
das Kind</i>

2
00:00:02,100 --> 00:00:03,000
<i>über das lange Konzert nach.</i>

3
00:00:03,100 --> 00:00:04,000
- Der Hund schläft.
- Das Kind läuft.

4
00:00:04,100 --> 00:00:05,000
1984

5
00:00:05,100 --> 00:00:06,000

6
00:00:06,100 --> 00:00:07,000
{\\i1}Der Hund{\\i0} läuft im <font color="#ff0000">Garten</font>.

7
00:00:07,100 --> 00:00:08,000
♪ Das Kind singt ♪"""
WEB = """\ufeffWEBVTT Kind: captions

STYLE
::cue(b) {
  color: red;
}

REGION
id:below

NOTE This is not said,
and neither is this.

intro
00:01.000 --> 00:02.500 line:0 position:20%
<v Fred>The <c.loud>dog &amp; the cat</c> run

NOTE not this
00:02.600-->01:00:03.000
through <00:02.800>the <00:02.900>garden.

00:04.000 --> 00:05.000
- Who is there?
- <b>Nobody</b> &lt;here&gt;.

00:06.000 --> 00:07.000

00:08.000 --> 00:09.000
[door opens]
"""
BY: list[Callable[[str], str]] = [
    str.upper,
    lambda text: "x",
    lambda text: f"{text} {text}",
    lambda text: " ".join(text.split()[::-1]),
    lambda text: "東京の犬は、とても大きい。",
    lambda text: "a --> b\n\n1",
]


def read(name: str, text: str, whole: bool = True) -> Contents:
    return open_file(name, text.encode(), Cutter("de", whole))


def translate(
    name: str, text: str, by: Callable[[str], str] = str.upper, whole: bool = True
) -> str:
    contents = read(name, text, whole)
    documents = contents.documents
    return contents.write([d.join([by(each) for each in d.sentences]) for d in documents]).decode()


def said(name: str, text: str) -> list[str]:
    """The sentences that are translated."""
    return [each for document in read(name, text).documents for each in document.sentences]


def test_all_words_are_translated_and_stay_in_their_cues() -> None:
    expected = CUES.upper()
    for kept in ("{\\an8}", "<i>", "</i>", "{\\i1}", "{\\i0}", '<font color="#ff0000">', "</font>"):
        expected = expected.replace(kept.upper(), kept)
    assert translate("a.srt", CUES) == expected
    assert said("a.srt", CUES)[0] == "Drei Wochen denkt das Kind über das lange Konzert nach."
    assert said("a.srt", CUES)[-2:] == ["Der Hund läuft im Garten.", "Das Kind singt"]


def test_what_surrounds_the_cues_of_the_web_stays() -> None:
    text = translate("a.vtt", WEB)
    assert said("a.vtt", WEB) == [
        "The dog & the cat run through the garden.",
        "Who is there?",
        "Nobody <here>.",
        "door opens",
    ]
    assert text[: text.index("<v Fred>")] == WEB[: WEB.index("<v Fred>")]
    assert "<v Fred>THE <c.loud>DOG &amp; THE CAT</c> RUN\n\nNOTE not this\n00:02.600-->" in text
    assert "\nTHROUGH <00:02.800>THE <00:02.900>GARDEN.\n" in text
    assert "- WHO IS THERE?\n- <b>NOBODY</b> &lt;HERE&gt;.\n" in text
    assert "00:07.000\n\n00:08.000 --> 00:09.000\n[DOOR OPENS]\n" in text


@pytest.mark.parametrize(("name", "text"), [("a.srt", CUES), ("a.vtt", WEB)])
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("whole", [True, False])
def test_heads_stay_and_tags_are_balanced_in_each_cue(
    name: str, text: str, by: Callable[[str], str], end: str, whole: bool
) -> None:
    text = text.replace("\n", end)
    assert translate(name, text, str, whole) == text
    new = translate(name, text, by, whole)
    head = re.compile(r"[^\r\n]*-->[^\r\n]*")
    assert head.findall(new) == head.findall(text)
    assert new.replace(end, "\n").count("\n\n") == text.replace(end, "\n").count("\n\n")
    pairs = list(zip(head.split(new), head.split(text), strict=True))
    tag = re.compile(r"<[^<>]*>|\{\\\w*\}")
    assert sorted(tag.findall(new)) == sorted(tag.findall(text))
    for cue, original in pairs[1:]:
        assert bool(cue.split()) == bool(original.split())
        assert len(re.findall(r"<[a-uw-z]", cue)) == cue.count("</")


def test_a_pair_of_tags_does_not_go_over_the_end_of_a_cue() -> None:
    text = "1\n0:0:1,0 --> 0:0:2,0\na b c\n\n2\n0:0:2,0 --> 0:0:3,0\n<i>d e</i> f.\n"
    by = lambda text: "d e a b c f."  # noqa: E731
    # By the order of words, the italics are around the fourth and fifth word.
    assert "d e a\n\n2\n0:0:2,0 --> 0:0:3,0\n<i>b c</i> f." in translate("a.srt", text, by)
    wide = text.replace("<i>d e</i> f", "<i>d e f</i>").replace("a b c", "a <b>b c</b>")
    new = translate("a.srt", wide, lambda text: "a b c d. e f g h i j k l m n o p q r")
    for cue in new.split("\n\n"):
        assert cue.count("<b>") == cue.count("</b>") and cue.count("<i>") == cue.count("</i>")


@pytest.mark.parametrize(
    "times",
    [
        "0:0:4,0 --> 0:0:5,0",
        "00:00:04,000 --> 00:00:05,000  X1:40 X2:600 Y1:20 Y2:50",
        "00:00:04.000 --> 00:00:05.000",
        "00:00:04 --> 00:00:05",
        "00：00：04，000 --> 00：00：05，000",
        "100:00:04,000-->100:00:05,000",
        "00:00:04,000 -- > 00:00:05,000",
        "00:00:04,000 - > 00:00:05,000",
        "00:00:04,0000000 --> 00:00:05,0",
        "-00:00:04,000 --> 00:00:05,000",
        "start --> end",
    ],
)
@pytest.mark.parametrize("number", ["2\n", "", "2.5\n", "-3\n", "2\n\n\n", " 2 \n"])
def test_a_line_with_an_arrow_is_never_text(times: str, number: str) -> None:
    text = f"1\n0:0:1,0 --> 0:0:2,0\nDer Hund\n\n{number}{times}\nläuft und\n\n3\n{times}\nsingt.\n"
    new = translate("a.srt", text)
    assert new == text.replace("Der Hund", "DER HUND").replace("läuft und", "LÄUFT UND").replace(
        "singt", "SINGT"
    )
    assert said("a.srt", text) == ["Der Hund läuft und singt."]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_lines_of_a_cue_are_translated_whatever_ends_them(end: str) -> None:
    for name, text in (("a.srt", CUES), ("a.vtt", WEB)):
        assert said(name, text.replace("\n", end)) == said(name, text)


def test_names_of_cues_stay() -> None:
    text = "WEBVTT\n\nthe first\n00:01.000 --> 00:02.000\na dog\n\n"
    text += "the second\n00:02.000 --> 00:03.000\nruns."
    assert said("a.vtt", text) == ["a dog runs."]
    assert translate("a.vtt", text) == text.replace("a dog", "A DOG").replace("runs", "RUNS")


@pytest.mark.parametrize(
    ("cue", "sentences"),
    [
        ("♪ Das Kind singt ♪", ["Das Kind singt"]),
        ("♪♪", []),
        ("# Das Kind singt #", ["Das Kind singt"]),
        ("[Tür knallt]", ["Tür knallt"]),
        ("-Wer ist da?\n-Ich.", ["Wer ist da?", "Ich."]),
        ("<i>- Wer ist da?</i>\n<i>- Ich.</i>", ["Wer ist da?", "Ich."]),
        (">> Wer ist da?\n>> Ich.", ["Wer ist da?", "Ich."]),
        ("...und dann\nging er.", ["und dann ging er."]),
        ("{\\pos(1,2)}{\\fad(1,2)}Der Hund", ["Der Hund"]),
        ("Der Hund\\Nläuft.", ["Der Hund läuft."]),
        ("{\\b1}{\\i1}Der Hund{\\i0}{\\b0}", ["Der Hund"]),
        ("{\\i1}Der{\\i0} Hund", ["Der Hund"]),
        ("<i></i>", []),
        ("<i>\nDer Hund\n</i>", ["Der Hund"]),
    ],
)
def test_marks_and_codes_are_no_words(cue: str, sentences: list[str]) -> None:
    text = f"1\n00:00:01,000 --> 00:00:02,000\n{cue}\n\n2\n00:00:02,000 --> 00:00:03,000\n- Ende.\n"
    assert said("a.srt", text)[:-1] == sentences
    expected = text
    for sentence in sentences:
        for words in re.split(r" (?=läuft|ging)", sentence):
            expected = expected.replace(words, words.upper())
    if sentences != ["Der Hund"] or "Der{" not in cue:
        assert translate("a.srt", text) == expected.replace("Ende", "ENDE")


AROUND = ["{}", "{}", "<i>{}</i>", "- {}", "♪ {} ♪", "# {} #", "* {} *", "¶ {} ¶", "[{}]", "({})"]
AROUND += ["<v Hans>{}</v>", "<v Eva>{}", "{{\\an8}}{}", "<i>({})</i>", "<b><i>{}</i></b>", ">> {}"]
SAID = ["Der Hund schläft.", "Das Kind läuft!", "Wer ist da?", "Er sagte: “Nein.”", "Ja … Nein."]
LINES = st.tuples(st.sampled_from(AROUND), st.sampled_from(SAID))


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    cues=st.lists(st.lists(LINES, min_size=1, max_size=3), min_size=1, max_size=4),
    end=st.sampled_from(["\n", "\r\n", "\\N", "\n "]),
    name=st.sampled_from(["a.srt", "a.vtt"]),
)
def test_lines_and_cues_of_whole_sentences_stay(
    cues: list[list[tuple[str, str]]], end: str, name: str
) -> None:
    def write(by: Callable[[str], str]) -> str:
        texts = (end.join(around.format(by(said)) for around, said in cue) for cue in cues)
        heads = (f"{k}\n0:0:{k},0 --> 0:0:{k + 1},0\n" for k in range(len(cues)))
        blocks = (head + text for head, text in zip(heads, texts, strict=True))
        return "WEBVTT\n\n" * (name == "a.vtt") + "\n\n".join(blocks)

    assert translate(name, write(str)) == write(str.upper)


@pytest.mark.parametrize(
    ("cue", "expected"),
    [
        ("&#" + "1" * 5000 + ";", None),
        (" \nder Hund\n \nläuft", " \nDER HUND\n \nLÄUFT"),  # captions of YouTube
        ("der &amp; die", "DER &amp; DIE"),
        ("<00:01.500>der <00:01.700>Hund", "<00:01.500>DER <00:01.700>HUND"),
        ("der Hund\n<00:01.700>läuft", "DER HUND\n<00:01.700>LÄUFT"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_cues_of_the_web_end_with_an_empty_line(cue: str, expected: str | None, end: str) -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n\nno text\n"
    new = translate("a.vtt", text.format(cue).replace("\n", end))
    assert expected is None or new == text.format(expected).replace("\n", end)


NUMBERS = st.integers(0, 99)
TIMES = st.builds("{}:{}:{},{}".format, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 999))
TEXTS = st.lists(
    st.sampled_from(
        ["der", "Hund.", "läuft", "<i>", "</i>", "{\\an8}", "\n", "- ", "♪", "12", "<b>"]
    )
).map(" ".join)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    cues=st.lists(st.tuples(TIMES, TIMES, TEXTS), min_size=1),
    by=st.sampled_from(BY),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_libraries_read_the_same_cues(
    cues: list[tuple[str, str, str]], by: Callable[[str], str], end: str
) -> None:
    srt, pysrt = pytest.importorskip("srt"), pytest.importorskip("pysrt")
    blocks = (
        f"{number}\n{begin} --> {stop}\n" + re.sub(r"\n\s*", "\n", text).strip() + "\n"
        for number, (begin, stop, text) in enumerate(cues, 1)
    )
    text = "\n".join(blocks)

    def heads(text: str) -> list[list[tuple[object, ...]]]:
        by_srt = [(cue.index, cue.start, cue.end) for cue in srt.parse(text)]
        by_pysrt = [(cue.index, cue.start, cue.end) for cue in pysrt.from_string(text)]
        return [by_srt, by_pysrt]

    new = translate("a.srt", text.replace("\n", end), by)
    assert heads(new.replace("\r\n", "\n")) == heads(text)
    assert len(heads(text)[0]) == len(cues)
    assert all(isinstance(begin, timedelta) for _, begin, _ in heads(text)[0])


def test_files_without_cues_are_refused_or_stay() -> None:
    for name, text in (("a.srt", "A text."), ("a.vtt", "A text."), ("a.srt", "")):
        with pytest.raises(DataError, match="no times of subtitles"):
            read(name, text)
    assert (
        translate("a.vtt", "WEBVTT\n\nNOTE nothing is said\n") == "WEBVTT\n\nNOTE nothing is said\n"
    )


def test_cues_and_tags_are_counted_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cues = "1\n0:0:1,0 --> 0:0:2,0\nA.\n\n" * 200_001
    begun = time.process_time()
    with pytest.raises(DataError, match="more than 200,000 cues"):
        read("a.srt", cues)
    with pytest.raises(DataError, match="more than 200,000 tags"):
        read("a.srt", cues[:23] + "<i>a " * 200_001)
    assert time.process_time() - begun < 10


def test_tags_and_lines_are_counted_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("something was made of a tag or line before all were counted")

    monkeypatch.setattr("seq2seq.text.documents.files.subtitles.tag_of", refuse)
    head = "1\n0:0:1,0 --> 0:0:2,0\n"
    for cue in ("<i>a</i> " * 101_000, "[a] \\N" * 67_000, "a\r\n" * 201_000, "a\r" * 201_000):
        text = f"{head}{cue}\n\n{head}z"
        tracemalloc.start()
        with pytest.raises(DataError, match="more than 200,000 tags and lines"):
            read("a.srt", text)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
        tracemalloc.stop()


UNITS = [
    "1\n0:0:1,0 --> 0:0:2,0\nA.\n\n", "1\n0:0:1,0 --> 0:0:2,0\na <i>b</i>\n\n", "1\n",
    "a\n", "a\n\n", "1\n00:00:00,0 --> ", "0:0:1,0 -->\n", "<i>a ", "<i ", "a ", " ", " \t", " \n",
    "<00:01.0", "- ", "♪ ", "{\\i1}a{\\i0} ",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", every_other(["a.srt", "a.vtt"]))
def test_time_grows_with_the_file(name: str, unit: str) -> None:
    def cost(count: int) -> float:
        text = "WEBVTT\n\n" * (name == "a.vtt") + "1\n0:0:1,0 --> 0:0:2,0\na" + unit * count + "z"
        begun = time.process_time()
        translate(name, text)
        return time.process_time() - begun

    count = min(4000, 30_000 // len(unit))
    small = min(cost(count) for _ in range(2))
    assert cost(4 * count) < 6 * small + 0.5
