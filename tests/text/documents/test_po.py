"""Catalogs of gettext: markup in messages, placeholders, flags, and what msgfmt says."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from helpers.document_files import CATALOG, read, translate

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files.contents import Cutter
from seq2seq.text.documents.files.formats import open_file
from seq2seq.text.documents.files.messages import find_directives
from seq2seq.text.documents.markup import MAX_ELEMENTS

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def one(message: str, flags: str = "") -> bytes:
    escaped = message.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{HEADER}{flags}msgid "{escaped}"\nmsgstr ""\n'.encode()


def translation_of(data: bytes) -> str:
    """The translation of the only message."""
    found = re.findall(r'^msgstr (".*")', data.decode(), re.M)
    assert len(found) == 2
    return found[1][1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")


def accepts(data: bytes, tmp_path: Path) -> str:
    """What msgfmt says about a catalog; nothing if it is in order."""
    if not shutil.which("msgfmt"):
        pytest.skip("msgfmt is not installed: apt install gettext")
    (tmp_path / "a.po").write_bytes(data)
    command = ["msgfmt", "-c", "-o", str(tmp_path / "a.mo"), str(tmp_path / "a.po")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return ended.stderr if ended.returncode else ""


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Der Hund & <b>das Kind</b> schlafen.", "DER HUND & <b>DAS KIND</b> SCHLAFEN."),
        ("Hund &amp; <b>Kind</b>", "HUND &amp; <b>KIND</b>"),
        ("Hund &amp; Kind", "HUND &amp; KIND"),
        ("&Hund", "&HUND"),
        ("Hund &Kind", "HUND &KIND"),
        ("Hund & Kind, R&D", "HUND & KIND, R&D"),
        ("Der <0>Hund</0> und <1/>das <12>Kind</12>", "DER <0>HUND</0> UND <1/>DAS <12>KIND</12>"),
        ("Mit &quot;Hund&quot; und 'Kind'", "MIT &quot;HUND&quot; UND 'KIND'"),
        ('Der <a href="x?a=1&b=2">Hund</a>', 'DER <a href="x?a=1&b=2">HUND</a>'),
        ("Aufruf: prog <datei> & mehr", "AUFRUF: PROG <DATEI> & MEHR"),
        ("Eins\nzwei\tdrei\n", "EINS\nZWEI\tDREI\n"),
        ("  Eins", "  EINS"),
        ("Nutze &lt;b&gt; im <b>Garten</b>.", "NUTZE &lt;B&gt; IM <b>GARTEN</b>."),
        ("5 < 6, Hund > das", "5 < 6, HUND > DAS"),
        ('Sag "ja" \\ nein', 'SAG "JA" \\ NEIN'),
    ],
)
def test_entities_and_tags_are_as_in_the_message(
    message: str, expected: str, tmp_path: Path
) -> None:
    data = translate("a.po", one(message))
    assert not accepts(data, tmp_path)
    if "\n" in expected[:-1]:
        assert '"EINS\\n"\n"ZWEI\\tDREI\\n"' in data.decode()
    else:
        assert translation_of(data) == expected
    if "<datei>" not in message:
        assert expected.upper() == message.upper()


@pytest.mark.parametrize(
    ("flags", "message", "translation", "lost"),
    [
        ("c-format", "Der Hund %s", "The dog %s", ""),
        ("c-format", "Der Hund %s", "The dog", "%s"),
        ("c-format", "Der Hund %u", "The dog %d", "%u"),
        ("c-format", "%s hat %d", "%d of %s", "%s"),
        ("c-format", "%1$s hat %2$d", "%2$d of %1$s", ""),
        ("c-format", "Zu 100%% wahr", "100% true", "%"),
        ("c-format", "%.2f von %5ld", "%5ld of %.2f", "%.2f"),
        ("fuzzy-not, python-format", "%(a)s und %(b)s", "%(b)s and %(a)s", ""),
        ("python-format", "%(a)s", "%(b)s", "%(a)s"),
        ("python-brace-format", "Der Hund {name}", "The dog {nom}", "{name}"),
        ("python-brace-format", "Der Hund {name}", "The dog {name", "{name}"),
        ("java-format", "Der Hund {0}", "The dog {0}", ""),
        ("java-format", "Der Hund {0}", "The dog's {0}", "'"),
        ("lisp-format", "Der Hund ~a", "The dog ~a", ""),
        ("lisp-format", "Der Hund ~a", "The dog", "~"),
        ("csharp-format", "Der Hund {0:N2}", "The dog {0:N2}", ""),
        ("qt-format", "%1 von %2", "%2 of %1", ""),
        ("no-c-format", "Der Hund %s", "The dog", ""),
        ("", "Der Hund %s", "The dog", ""),
    ],
)
def test_a_message_with_a_format_needs_the_same_placeholders(
    flags: str, message: str, translation: str, lost: str, tmp_path: Path
) -> None:
    data = one(message, f"#, {flags}\n" if flags else "")
    contents = read("a.po", data)
    written = contents.write([translation])
    if lost:
        assert written == data
        assert len(contents.problems) == 1 and lost in contents.problems[0]
        assert "line 6" in contents.problems[0]
    else:
        assert translation_of(written) == translation and contents.problems == []
    assert not accepts(written, tmp_path)
    # Each call says what is wrong with its own texts.
    contents.write([message])
    assert contents.problems == []


def test_without_a_format_only_placeholders_in_braces_must_stay() -> None:
    data = one("Der Hund {name} %s")
    contents = read("a.po", data)
    assert translation_of(contents.write(["The dog {name}"])) == "The dog {name}"
    assert contents.problems == []
    assert contents.write(["The dog %s"]) == data
    assert len(contents.problems) == 1 and "{name}" in contents.problems[0]


def test_of_plural_forms_all_or_none_are_filled(tmp_path: Path) -> None:
    head = HEADER.replace('8\\n"', '8\\n"\n"Plural-Forms: nplurals=2; plural=n != 1;\\n"')
    data = (
        f'{head}#, c-format\nmsgid "%d Hund"\nmsgid_plural "%d Hunde"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    ).encode()
    contents = read("a.po", data)
    good = contents.write(["%d dog", "%d dogs"])
    assert b'msgstr[0] "%d dog"\nmsgstr[1] "%d dogs"' in good
    assert contents.write(["%d dog", "dogs"]) == data and len(contents.problems) == 1
    assert not accepts(good, tmp_path) and not accepts(data, tmp_path)


def test_directives_are_those_of_printf() -> None:
    assert find_directives("%s %-5.2lf %% %*d %2$s") == ["%s", "%-5.2lf", "%*d", "%2$s"]
    assert find_directives("%2$s %1$s") == ["%1$s", "%2$s"]
    assert find_directives("100%") == ["%"]


def test_what_is_filled_can_be_marked_as_fuzzy(tmp_path: Path) -> None:
    for end in ("\n", "\r\n"):
        data = CATALOG.replace("\n", end).encode()
        contents = open_file("a.po", data, Cutter("en", fuzzy=True))
        text = contents.write(
            ["x\n" if "Hello" in str(d.originals) else "x" for d in contents.documents]
        )
        lines = text.decode().split(end)
        for key in ('msgid "One file"', 'msgid "One tree"'):
            assert lines[lines.index(key) - 1] == "#, fuzzy"
        assert lines[lines.index('msgctxt "menu"') - 1] == "#, fuzzy, c-format"
        assert lines[lines.index('msgid "Done"') - 1] != "#, fuzzy"
        assert text.count(b"fuzzy") == data.count(b"fuzzy") + 4
        assert open_file("a.po", text, Cutter("en")).documents == []
        assert b"fuzzy" not in translate("a.po", one("Ein Hund"))


def test_flags_are_those_of_the_next_message() -> None:
    """Blank lines do not matter, and those of obsolete messages are not of the next one."""
    data = f'{HEADER}#, fuzzy\n\nmsgid "a"\nmsgstr ""\n\n#, fuzzy\n#~ msgid "b"\n#~ msgstr ""\n\n'
    data += '#| msgid "old"\nmsgid "c"\nmsgstr ""\n'
    contents = read("a.po", data.encode())
    assert [document.sentences for document in contents.documents] == [["c"]]
    assert contents.write(["d"]).decode() == data[: -len('""\n')] + '"d"\n'


def test_the_catalog_of_msginit_is_accepted(tmp_path: Path) -> None:
    for declared in ("ASCII", "CHARSET", "ISO-8859-1"):
        data = one("Ein Hund").decode().replace("UTF-8", declared).encode()
        written = translate("a.po", data, lambda text: "Žluťoučký kůň")
        assert "charset=UTF-8" in written.decode()
        assert not accepts(written, tmp_path)
        assert f"charset={declared}" in translate("a.po", data).decode() or declared == "CHARSET"


def test_polib_reads_what_is_written() -> None:
    polib = pytest.importorskip("polib")
    entries = polib.pofile(translate("a.po", CATALOG.encode()).decode())
    assert [entry.msgstr for entry in entries if entry.msgid.startswith("Two")] == [
        "TWO LINES\nOF TEXT."
    ]
    assert entries.find("One tree").msgstr_plural == {0: "Ein Baum", 1: "MANY TREES"}
    assert [entry.msgid for entry in entries.obsolete_entries()] == ["Obsolete"]


def test_too_many_messages_are_refused() -> None:
    with pytest.raises(DataError, match="more than 200,000 strings"):
        read("a.po", b'msgid "a"\nmsgstr ""\n' * (MAX_ELEMENTS // 2 + 1))


def test_the_time_of_writing_grows_as_the_file() -> None:
    """It was quadratic: the whole file was searched for each message."""

    def seconds(count: int) -> float:
        contents = read("a.po", HEADER.encode() + b'msgid "a"\nmsgstr ""\n\n' * count)
        texts = ["b"] * count
        began = time.process_time()
        contents.write(texts)
        return time.process_time() - began

    seconds(100)
    assert seconds(16_000) < 12 * seconds(4_000) + 0.2


@pytest.mark.parametrize("message", [r"\033[1m", r"http://a.b/\303\244", r"\e[0m", r"\x1b[1m42"])
def test_escapes_of_a_message_that_is_copied_stay(message: str) -> None:
    data = translate("a.po", f'{HEADER}msgid "{message}"\nmsgstr ""\n'.encode())
    assert data.decode().endswith(
        f'msgid "{message}"\nmsgstr "{message}"\n'
    ) or data.decode().endswith('msgstr ""\n')


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (r"\x41 Hund", r"\x41 HUND"),
        (r"\033[1mHund\033[0m", r"\033[1mHUND\033[0m"),
        (r"Ein <b>Hund\7</b>", r"EIN <b>HUND\7</b>"),
        (r"Hund \" \\033 \q", r"HUND \" \\033 \q"),
        (r"\tHund\a", r"\tHUND\a"),
    ],
)
def test_escapes_stay_as_they_are_written(message: str, expected: str) -> None:
    data = f'{HEADER}msgid "{message}"\nmsgstr ""\n'.encode()
    assert translate("a.po", data).decode().endswith(f'\nmsgstr "{expected}"\n')


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ('msgid "Der Hund"\n"schläft\nmsgstr ""\n', 5),
        ('msgid "Der Hund"\nmsgstr "', 5),
        ('msgid "Der Hund"\n', 4),
        ('msgid "Der Hund" und mehr\nmsgstr ""\n', 4),
        ('msgid_plural "Hunde"\nmsgstr[0] ""\n', 4),
        ('# Hunde\nmsgid Der Hund\nmsgstr ""\n', 5),
        ("Kein Katalog\n", 4),
        ('#. Hunde\rmsgid "Der Hund"\rmsgstr ""\r', 4),
    ],
)
def test_a_damaged_catalog_is_refused_with_its_line(more: str, line: int) -> None:
    with pytest.raises(DataError, match=f"a.po cannot be read as .po: line {line}: "):
        read("a.po", (HEADER + more).encode())
    for whole in ("Kein Katalog\n", "\ufeffmsgid Hund", HEADER.replace("\n", "\r")):
        with pytest.raises(DataError, match="line 1: "):
            read("a.po", whole.encode())


def test_strings_may_stand_apart() -> None:
    """Blank lines are allowed everywhere, and comments behind strings."""
    data = f'\ufeff{HEADER}msgid "Der "\n\n  "Hund" # ein Tier\n\nmsgstr ""\n'.replace("\n", "\r\n")
    assert translate("a.po", data.encode()).decode() == data.replace(
        'msgstr ""\r\n', 'msgstr "DER HUND"\r\n'
    )
