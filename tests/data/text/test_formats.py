import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.data.corpus.cache import FileMemo
from seq2seq.data.text.formats import JsonLines, TabTable, TextFormat, TwoFiles, find_format

PAIRS = [("ein Hund", "a dog"), ('"zwei" \u2028 Hunde', "two\x85dogs"), ("", "x"), ("drei", " ")]
MARK = "\ufeff"  # of byte order: no text keeps one, wherever it stands
cells = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=f"\n\t\r{MARK}"), max_size=9
)
strings = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=MARK), max_size=9)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path = folder / name
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def format_of(path: Path, source: str = "de", target: str = "en") -> TextFormat:
    return find_format(str(path), source, target, "data.train")


def complaint(path: Path, source: str = "de", target: str = "en") -> str:
    """The error message of a faulty file, the same from `check` and from reading one side."""
    text = format_of(path, source, target)
    messages = set()
    for read in (lambda: text.check(FileMemo(path.parent / "cache")), lambda: [*text.side(1)]):
        with pytest.raises(DataError) as caught:
            read()
        messages.add(str(caught.value))
    [message] = messages
    assert str(path) in message
    return message


def tsv(pairs: list[tuple[str, str]], header: str = "de\ten\n") -> str:
    return header + "".join(f"{a}\t{b}\n" for a, b in pairs)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
@given(pairs=st.lists(st.tuples(cells, cells), min_size=1))
def test_a_table_gives_back_its_pairs(
    name: str, pairs: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.mktemp("tsv"), name, tsv(pairs))
    text = format_of(path)
    assert isinstance(text, TabTable)
    assert list(text.pairs()) == pairs
    assert [list(text.side(i)) for i in (0, 1)] == [list(side) for side in zip(*pairs, strict=True)]
    assert text.check(FileMemo(path.parent / "cache")) == len(pairs)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize("ascii_only", [True, False])
@given(pairs=st.lists(st.tuples(strings, strings), min_size=1))
def test_json_lines_give_back_their_pairs(
    name: str,
    ascii_only: bool,
    pairs: list[tuple[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rows = [{"id": 7, "en": b, "de": a, "more": [None, {}]} for a, b in pairs]
    lines = "".join(f"{json.dumps(row, ensure_ascii=ascii_only)}\n" for row in rows)
    text = format_of(write(tmp_path_factory.mktemp("json"), name, lines))
    assert isinstance(text, JsonLines)
    assert list(text.pairs()) == pairs


def test_columns_by_name_may_be_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "id\ten\tde\r\n1\ta dog\tein Hund\r\n2\t\t\n")
    assert list(format_of(path).pairs()) == [("ein Hund", "a dog"), ("", "")]


def test_columns_by_index_need_no_header(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", tsv(PAIRS, header=""))
    assert list(format_of(path, "1", "2").pairs()) == PAIRS
    assert list(format_of(path, "2", "1").pairs()) == [(b, a) for a, b in PAIRS]


def test_quotes_and_other_separators_are_plain_characters(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", 'de\ten\n"a\tb"\n\u2028\x0c\t\r\x1c\n')
    assert list(format_of(path).pairs()) == [('"a', 'b"'), ("\u2028\x0c", "\r\x1c")]


def test_all_formats_of_the_same_pairs_are_read_alike(tmp_path: Path) -> None:
    for side, name in enumerate(("de", "en")):
        write(tmp_path, f"a.{name}", "".join(f"{pair[side]}\n" for pair in PAIRS))
    table = write(tmp_path, "a.tsv", tsv(PAIRS))
    rows = "".join(json.dumps({"de": a, "en": b}) + "\n" for a, b in PAIRS)
    objects = write(tmp_path, "a.jsonl", rows)
    formats = format_of(tmp_path / "a"), format_of(table), format_of(objects)
    assert isinstance(formats[0], TwoFiles)
    assert [list(text.pairs()) for text in formats] == [PAIRS] * 3
    assert len({text.settings for text in formats}) == 3


TABLES = [
    ("de\tfr\na\tb\n", r"line 1: no column 'en'. Its columns: de, fr. Name another target"),
    ("ein Hund\ta dog\n", r"line 1: no column 'de'.*1 as source and 2 as target"),
    ("de\ten\tde\na\tb\tc\n", "line 1: more than one column 'de'"),
    ("de\ten\na\tb\nc\n", r"line 3: 1 column\(s\), but 2 in line 1"),
    ("de\ten\na\tb\tc\n", r"line 2: 3 column\(s\), but 2 in line 1"),
    ("de\ten\na\tb\n\n", r"line 3: 1 column\(s\)"),
    ("de\ten\n", "has a header and nothing else"),
    ("", "is empty"),
    (b"de\ten\na\tb\na\t\xff\n", "line 3, byte 3: 0xff is not UTF-8"),
]


@pytest.mark.parametrize(("content", "words"), TABLES)
@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_a_faulty_table_is_refused_with_its_line(
    name: str, content: str | bytes, words: str, tmp_path: Path
) -> None:
    message = complaint(write(tmp_path, name, content))
    assert re.search(words, message), message


@pytest.mark.parametrize(
    ("content", "columns", "words"),
    [
        ("a\tb\n", "13", "no column '3'. Its columns: 1, 2."),
        ("a\tb\n", "01", "no column '0'"),
        ("a\tb\n", ["1", "en"], "no column '1'. Its columns: a, b."),
        ("a\tb\nc\td\te\n", "12", "line 2: 3 column(s), but 2 in line 1"),
    ],
)
def test_a_faulty_numbered_table_is_refused(
    content: str, columns: list[str], words: str, tmp_path: Path
) -> None:
    assert words in complaint(write(tmp_path, "a.tsv", content), *columns)


GOOD = '{"de": "a", "en": "b"}\n'
OBJECTS = [
    (GOOD + '{"de": "a", "en": "b"\n', "line 2: not JSON"),
    (GOOD + "\n", "line 2: not JSON"),
    (GOOD + '{"de": "a"}\n', "line 2: no key 'en'. Its keys: de. Name another target"),
    (GOOD + '{"de": null, "en": "b"}\n', "line 2: 'de' is null; expected a string"),
    (GOOD + '{"de": ["a"], "en": "b"}\n', "line 2: 'de' is [\"a\"]; expected a string"),
    (GOOD + '{"de": "a", "en": 5}\n', "line 2: 'en' is 5; expected a string"),
    (GOOD + '["a", "b"]\n', "is not an object"),
    (GOOD + '{"de": "a", "en": "b", "de": "c"}\n', "the key 'de' occurs twice"),
    (GOOD + '{"de": "\\ud800", "en": "b"}\n', "line 2: a lone surrogate"),
    (GOOD + "[" * 10**5 + "\n", "line 2: "),
    (GOOD + f'{{"de": {"1" * 10**4}, "en": "b"}}\n', "line 2: "),
    (GOOD + GOOD.strip() + GOOD, "line 2: not JSON"),
    ("", "is empty"),
    (GOOD.encode() + b'{"de": "\xff", "en": "b"}\n', "line 2, byte 9: 0xff is not UTF-8"),
]


@pytest.mark.parametrize(("content", "words"), OBJECTS, ids=range(len(OBJECTS)))
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_faulty_json_lines_are_refused_with_their_line(
    name: str, content: str | bytes, words: str, tmp_path: Path
) -> None:
    assert words in complaint(write(tmp_path, name, content))


@pytest.mark.parametrize("name", ["a.tsv.gz", "a.jsonl.gz"])
def test_a_table_of_a_truncated_gzip_file_is_refused(name: str, tmp_path: Path) -> None:
    rows = [json.dumps({"de": str(i * i), "en": "x"}) for i in range(500)]
    content = tsv([(str(i * i), "x") for i in range(500)]) if "tsv" in name else "\n".join(rows)
    path = write(tmp_path, name, content)
    path.write_bytes(path.read_bytes()[:-20])
    assert "not a whole gzip file" in complaint(path)


def test_a_missing_table_is_refused_with_the_names_of_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv.gz", "x")
    with pytest.raises(DataError, match=r"data.train=.*train\.tsv is not a file.*train\.tsv\.gz"):
        format_of(tmp_path / "train.tsv")


def test_two_files_that_differ_in_lines_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.de", "1\n2\n")
    write(tmp_path, "a.en", "1\n")
    with pytest.raises(DataError, match=r"a\.de has 2 line\(s\), .*a\.en 1"):
        format_of(tmp_path / "a").check(FileMemo(tmp_path / "cache"))


def test_a_list_of_one_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lists 1 files"):
        find_format(["a.tsv"], "de", "en", "data.train")
