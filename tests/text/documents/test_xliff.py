"""XLIFF: whose targets are kept, what is filled, and the markup in the text of sources."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.document_files import read, translate
from helpers.xliff import VERSION_1, file_1, unit_1

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files import messages
from seq2seq.text.documents.markup import MAX_ELEMENTS
from seq2seq.text.documents.xml_markup import change_attributes

CASES = Path(__file__).parents[2] / "cases"
VERSION_2 = "urn:oasis:names:tc:xliff:document:2.0"


def file_2(segment: str, attributes: str = "") -> bytes:
    return (
        f'<xliff version="2.0" xmlns="{VERSION_2}"><file id="f"><unit id="u">'
        f"<segment{attributes}>{segment}</segment></unit></file></xliff>"
    ).encode()


def target_of(data: bytes) -> str:
    """What is in the only target of a file, as XML."""
    found = re.findall(r"<target[^>]*>(.*?)</target>", data.decode(), re.S)
    assert len(found) == 1
    return str(found[0])


def test_the_work_of_people_stays() -> None:
    data = (CASES / "04-states.xlf").read_bytes()
    root = ElementTree.fromstring(translate("a.xlf", data, lambda text: f"{text} EN"))
    units = list(root.iter(f"{{{VERSION_1}}}trans-unit"))
    targets = {unit.get("id"): unit[1] for unit in units[:6]}
    assert targets["1"].text == "APPROVED BY A PERSON" and targets["1"].get("state") == "final"
    assert targets["2"].text == "TRANSLATED BY A PERSON"
    assert targets["2"].get("state") == "translated"
    for number in ("3", "4", "5"):
        assert (targets[number].text or "").endswith(" EN")
    assert {targets[number].get("state") for number in "3456"} == {"needs-review-translation"}
    assert [each.get("id") for each in targets["6"]] == ["INTERPOLATION", "START_TAG", "CLOSE_TAG"]


@pytest.mark.parametrize(
    ("unit", "target", "is_kept"),
    [
        ("", '<target state="translated">x</target>', True),
        ("", '<target state="signed-off">x</target>', True),
        ("", '<target state="final">Ein Hund.</target>', True),
        ("", '<target state="needs-review-translation">x</target>', True),
        ("", "<target>x</target>", True),
        (' approved="yes"', "<target>Ein Hund.</target>", True),
        (' approved="no"', "<target>Ein Hund.</target>", False),
        ("", '<target state="new">x</target>', False),
        ("", '<target state="needs-translation">x</target>', False),
        ("", "<target>Ein Hund.</target>", False),
        ("", "<target> </target>", False),
        ("", '<target state="needs-translation"/>', False),
        ("", "", False),
    ],
)
def test_a_translation_is_replaced_only_if_it_waits_for_one(
    unit: str, target: str, is_kept: bool
) -> None:
    data = unit_1("Ein Hund.", target, unit)
    written = translate("a.xlf", data)
    assert (written == data) == is_kept
    if not is_kept:
        assert target_of(written) == "EIN HUND."
        assert written.count(b'state="needs-review-translation"') == written.count(b"state=") == 1


@pytest.mark.parametrize(
    ("attributes", "target", "is_kept"),
    [
        (' state="translated"', "x", True),
        (' state="reviewed"', "Ein Hund.", True),
        (' state="final"', "x", True),
        (' state="initial" subState="my:reviewed"', "x", True),
        ("", "x", True),
        (' state="initial"', "x", False),
        (' state="initial" subState="my:machine"', "", False),
        ("", "", False),
    ],
)
def test_segments_of_version_2_have_states_of_their_own(
    attributes: str, target: str, is_kept: bool
) -> None:
    data = file_2(f"<source>Ein Hund.</source><target>{target}</target>", attributes)
    written = translate("a.xlf", data)
    assert (written == data) == is_kept
    if not is_kept:
        assert target_of(written) == "EIN HUND."
        assert b'<segment state="translated">' in written and b"final" not in written


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Ein &lt;b&gt;Hund&lt;/b&gt; läuft.", "EIN &lt;b&gt;HUND&lt;/b&gt; LÄUFT."),
        ("Ein &lt;b>Hund&lt;/b> läuft.", "EIN &lt;b&gt;HUND&lt;/b&gt; LÄUFT."),
        ("<![CDATA[Ein <b>Hund</b> läuft.]]>", "EIN &lt;b&gt;HUND&lt;/b&gt; LÄUFT."),
        ("Ein &lt;0&gt;Hund&lt;/0&gt; läuft.", "EIN &lt;0&gt;HUND&lt;/0&gt; LÄUFT."),
        ("Hund &amp; Katze", "HUND &amp; KATZE"),
        ("Hund &amp;amp; &lt;i&gt;Katze&lt;/i&gt;", "HUND &amp;amp; &lt;i&gt;KATZE&lt;/i&gt;"),
        ("Wenn 5 &lt; 6 ist", "WENN 5 &lt; 6 IST"),
        (
            'Zu &lt;a href="a?b=1&amp;amp;c"&gt;uns&lt;/a&gt;<x id="1"/> hin',
            'ZU &lt;a href="a?b=1&amp;amp;c"&gt;UNS&lt;/a&gt;<x id="1"/> HIN',
        ),
    ],
)
def test_escaped_markup_is_read_as_tags(source: str, expected: str) -> None:
    written = target_of(translate("a.xlf", unit_1(source)))
    assert written.replace('"', "&quot;") == expected.replace('"', "&quot;")


def segments(*texts: str, space: str = "") -> str:
    return space.join(
        f'<mrk mtype="seg" mid="{k}">{text}</mrk>' if text else f'<mrk mtype="seg" mid="{k}"/>'
        for k, text in enumerate(texts)
    )


@pytest.mark.parametrize(
    ("texts", "target", "expected"),
    [
        (("Hund", "Kind"), None, ("HUND", "KIND")),
        (("Der Hund läuft und", "das Kind"), None, ("DER HUND LÄUFT UND", "DAS KIND")),
        (("Ein <x id='1'/>Hund.", "<g id='2'>Kind</g>"), None,
         ("EIN <x id='1'/>HUND.", "<g id='2'>KIND</g>")),
        (("Hund {x}.", "Kind."), ("Done {x}.", ""), ("Done {x}.", "KIND.")),
        (("Hund.", "Kind."), ("", "Done."), ("HUND.", "Done.")),
        (("Hund.", "Kind."), ("Done.", "Kind."), ("Done.", "KIND.")),
        (("Hund.", "Kind.", "Tür."), ("Done.",), ("Done.", "KIND.", "TÜR.")),
        (("Hund.", "Kind."), ("Done.", "Too."), ("Done.", "Too.")),
        (("Hund.",), ("", "Other."), ("", "Other.")),
        (("Hund.", "12"), ("Done.", ""), ("Done.", "12")),
        (("Hund.", "12"), ("Done.", "12"), ("Done.", "12")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("space", ["", " "])
def test_segments_stay_apart_and_those_that_are_done_stay(
    texts: tuple[str, ...], target: tuple[str, ...] | None, expected: tuple[str, ...], space: str
) -> None:
    source = f"<source>x</source><seg-source>{segments(*texts, space=space)}</seg-source>"
    old = f"<target>{segments(*target, space=space)}</target>" if target else ""
    data = file_1(f"<trans-unit>{source}{old}</trans-unit>")
    written = translate("a.xlf", data)
    assert target_of(written) == segments(*expected, space=space)
    assert (written == data) == (target == expected)


@pytest.mark.parametrize("level", ["file", "trans-unit", "source"])
def test_lines_are_kept_where_white_space_is(level: str) -> None:
    data = unit_1("Ein Hund\n  ein Kind\tein Mann\r\n")
    assert target_of(translate("a.xlf", data)) == "EIN HUND EIN KIND EIN MANN\r\n"
    data = data.replace(f"<{level}".encode(), f'<{level} xml:space="preserve"'.encode())
    written = translate("a.xlf", data)
    assert target_of(written) == "EIN HUND\n  EIN KIND\tEIN MANN\r\n"
    data = data.replace(b"<source", b'<source xml:space="default"') if level != "source" else data
    assert ("\tEIN" in target_of(translate("a.xlf", data))) == (level == "source")


def test_pairs_of_angular_stay_around_their_words() -> None:
    link, tag = (f'<x id="START_{n}"/>{{}}<x id="CLOSE_{n}"/>' for n in ("LINK", "TAG_1"))
    tags = f"{link} {{}} {tag}"
    data = unit_1(tags.format("eins", "zwei", "drei"))
    assert target_of(translate("a.xlf", data)) == tags.format("EINS", "ZWEI", "DREI")


def test_a_translation_that_lost_its_placeholders_in_braces_is_left_out() -> None:
    source = "Der Hund {name} läuft."
    contents = read("a.xlf", unit_1(source))
    assert b"<target" in contents.write(["The dog {name} runs."]) and contents.problems == []
    for bad in ("The dog {nom} runs.", "The dog {name runs.", "The dog name} runs."):
        assert b"<target" not in contents.write([bad])
        assert len(contents.problems) == 1 and repr(source) in contents.problems[0]


CHOICE = "{VAR_PLURAL, plural, =1 {ein Hund} other {viele Hunde}}"


@pytest.mark.parametrize(
    "message", [CHOICE, f"Es sind {CHOICE}.", CHOICE.replace("plural", "select")]
)
def test_a_choice_that_is_left_as_it_is_is_named(message: str) -> None:
    """As a translation it would be wrong, and nobody would see that."""
    for name, data in (
        ("a.xlf", unit_1(message)),
        ("a.po", f'msgid "x"\nmsgstr "y"\n\nmsgid "{message}"\nmsgstr ""\n'.encode()),
    ):
        contents = read(name, data)
        assert contents.write([message]) == data
        assert len(contents.problems) == 1 and "{VAR_PLURAL, " in contents.problems[0]


def test_what_would_damage_a_file_is_refused_with_its_name() -> None:
    contents = read("a.xlf", unit_1("Ein <g id='1'>Hund</g>", '<target state="new"/>'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "render_message", lambda *arguments: "<g>not XML")
        with pytest.raises(DataError, match=r"a\.xlf cannot be written: .*would damage"):
            contents.write(["x"])


def test_elements_are_those_of_the_namespace() -> None:
    declared = f' xmlns:x="{VERSION_1}"'
    data = file_1("<trans-unit><source>Ein Hund.</source></trans-unit>")
    prefixed = re.sub(rb"<(/?)", rb"<\1x:", data).replace(
        f' xmlns="{VERSION_1}"'.encode(), declared.encode()
    )
    root = ElementTree.fromstring(translate("a.xlf", prefixed))
    assert [each.text for each in root.iter(f"{{{VERSION_1}}}target")] == ["EIN HUND."]
    other = '<trans-unit xmlns="urn:x"><source>Ein Hund.</source></trans-unit>'
    assert translate("a.xlf", file_1(other)) == file_1(other)
    inner = (
        '<trans-unit><source>Ein Hund.</source><m:target xmlns:m="urn:m">x</m:target></trans-unit>'
    )
    assert b">EIN HUND.</target>" in translate("a.xlf", file_1(inner))


@pytest.mark.parametrize("data", [b"<html/>", b'<w:xliff xmlns:w="urn:x"/>'])
def test_another_file_of_xml_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="not an XLIFF file"):
        read("a.xlf", data)


@pytest.mark.parametrize(
    "data", [b"", b"A text", b"<a/><b/>", b"<a:xliff/>", b"<xliff>&auml;</xliff>"]
)
def test_what_is_not_well_formed_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="not well-formed"):
        read("a.xlf", data)


@pytest.mark.parametrize("around", ["{}", "<trans-unit><source>a{}</source></trans-unit>"])
def test_too_many_elements_are_refused(around: str) -> None:
    with pytest.raises(DataError, match="more than 200,000 elements"):
        read("a.xlf", file_1(around.format("<g/>" * MAX_ELEMENTS)))


def test_attributes_are_changed_added_and_removed() -> None:
    opening = "<a b='1' c=\"state='2'\" d:e='3'>"
    assert change_attributes(opening, state="x", b="") == "<a c=\"state='2'\" d:e='3' state=\"x\">"
    assert change_attributes("<a b='1' />", b="2") == '<a b="2">'


def test_other_programs_read_what_is_written() -> None:
    data = translate("a.xlf", (CASES / "04-states.xlf").read_bytes(), lambda text: f"{text} EN")
    etree = pytest.importorskip("lxml.etree")
    assert etree.fromstring(data).tag == f"{{{VERSION_1}}}xliff"
    factory = pytest.importorskip("translate.storage.xliff")
    units = factory.xlifffile.parsestring(data).units
    assert [str(unit.target) for unit in units[:3]] == [
        "APPROVED BY A PERSON",
        "TRANSLATED BY A PERSON",
        "Der Garten ist lang. EN",
    ]
    assert units[0].isapproved() and all(unit.target for unit in units[:6])
    assert not units[0].isfuzzy() and all(unit.isfuzzy() for unit in units[2:6])
