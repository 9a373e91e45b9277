"""Files of messages that translate-toolkit reads: only their values change."""

import pytest
from helpers.document_files import read, translate

from seq2seq.base.errors import DataError

pytest.importorskip("translate.storage.yaml")
ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <!-- a comment -->
    <string name="a">a dog isn\\'t big</string>
    <string name="b" translatable="false">not this</string>
    <string name="c"><b>big</b> dogs &amp; <xliff:g id="x">%1$s</xliff:g></string>
    <string name="d"></string>
    <plurals name="e">
        <item quantity="one">%d dog</item>
        <item quantity="other">%d dogs</item>
    </plurals>
</resources>
"""
RESX = """<?xml version="1.0" encoding="utf-8"?>
<root>
  <resheader name="version">
    <value>not this</value>
  </resheader>
  <data name="a" xml:space="preserve">
    <value>a dog</value>
    <comment>not this</comment>
  </data>
  <data name="icon" type="System.Resources.ResXFileRef">
    <value>not this</value>
  </data>
  <data name="&gt;&gt;a.Name" xml:space="preserve">
    <value>not this</value>
  </data>
</root>
"""
QT = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="en_US" sourcelanguage="de_DE">
<context>
    <name>Main</name>
    <message>
        <location filename="main.cpp" line="3"/>
        <source>a dog</source>
        <translation type="unfinished">{}</translation>
    </message>
    <message numerus="yes">
        <source>%n dog(s)</source>
        <translation type="unfinished">
            <numerusform>{}</numerusform>
            <numerusform>{}</numerusform>
        </translation>
    </message>
    <message>
        <source>done</source>
        <translation>fertig</translation>
    </message>
</context>
</TS>
"""
MEMORY = """<?xml version="1.0" encoding="utf-8"?>
<tmx version="1.4">
  <header srclang="en" creationtool="a"/>
  <body>
    <tu>
      <tuv xml:lang="en"><seg>a dog</seg></tuv>
      <tuv xml:lang="de"><seg>{}</seg></tuv>
    </tu>
    <tu>
      <tuv xml:lang="en"><seg>done</seg></tuv>
      <tuv xml:lang="de"><seg>fertig</seg></tuv>
    </tu>
  </body>
</tmx>
"""
FILES = {
    "a.yaml": ("# not this\na:\n  b: a dog # nor this\n  c: 'two dogs'\n  d: \"x y\"\n  e: 3\n"
               "  f: yes\n  g:\n    - one dog\n    - 007\n",
               "# not this\na:\n  b: A DOG # nor this\n  c: 'TWO DOGS'\n  d: \"X Y\"\n  e: 3\n"
               "  f: yes\n  g:\n    - ONE DOG\n    - 007\n"),
    "strings.xml": (ANDROID, ANDROID.replace("a dog isn\\'t big", "A DOG ISN\\'T BIG")
        .replace("<b>big</b> dogs", "<b>BIG</b> DOGS").replace("%d dog<", "%d DOG<")
        .replace("dogs<", "DOGS<")),
    "a.resx": (RESX, RESX.replace("a dog", "A DOG")),
    "a.ts": (QT.format("", "", ""), QT.format("A DOG", "%n DOG(S)", "%n DOG(S)")),
    "a.tmx": (MEMORY.format(""), MEMORY.format("A DOG")),
}  # fmt: skip


def upper(text: str) -> str:
    """The text in capital letters, except its placeholders."""
    return " ".join(word if "%" in word or "{" in word else word.upper() for word in text.split())


@pytest.mark.parametrize("name", FILES)
def test_only_values_change(name: str) -> None:
    before, after = FILES[name]
    contents = read(name, before.encode())
    assert translate(name, before.encode(), str) == before.encode()
    new = translate(name, before.encode(), upper).decode()
    assert contents.problems == []
    # An empty element of XML may be written either way.
    assert new.replace('<string name="d"/>', '<string name="d"></string>') == after


def test_a_translation_may_contain_any_character() -> None:
    text = "\"x\" 'y' \\ <z> & # : = 東京"
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(translate("a.yaml", b"a: two dogs\n", lambda _: text)) == {"a": text}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "a: [", "cannot read it"),
        ("a.yaml", "a: {b: c  }\n", "more than texts"),
        ("a.xml", "<note><string>a dog</string></note>", "<resources>"),
        ("a.ts", "const a: string = 'a dog';", "<TS>"),
        ("a.ts", '<!DOCTYPE TS [<!ENTITY a "b">]><TS>&a;</TS>', "<TS>"),
        ("a.tmx", '<tmx version="1.4"><header srclang="en"/><body/></tmx>', "two languages"),
        ("a.yaml", "a: &dog a dog\nb: *dog\n", "a dog has an anchor"),
        ("a.yaml", "a: !!str a dog\n", "a dog has an anchor or a tag"),
        ("a.ts", QT.format("", "", "").replace("a dog", 'a <byte value="x1b"/>'), "<byte>"),
    ],
)
def test_what_would_change_otherwise_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        read(name, text.encode())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("&lt;b&gt;a&lt;/b&gt; &amp; dogs", "&lt;b&gt;A&lt;/b&gt; &amp; DOGS"),
        ("<b>a</b> &amp; dogs", "<b>A</b> &amp; DOGS"),
        ("@string/a", "@string/a"),
        ("?android:attr/a", "?android:attr/a"),
        ("\\@home dogs", "@HOME DOGS"),
    ],
)
def test_escaped_tags_of_android_are_text_and_references_stay(value: str, expected: str) -> None:
    frame = '<resources>\n    <string name="a">{}</string>\n</resources>\n'
    found = translate("a.xml", frame.format(value).encode(), upper).decode()
    assert found.replace("\\@", "@") == frame.format(expected)


def test_what_the_toolkit_leaves_out_is_named() -> None:
    typed = '<resources>\n    <item type="string" name="a">a dog</item>\n</resources>\n'
    assert "<item type=string>" in read("a.xml", typed.encode()).problems[0]
    array = (
        '<resources>\n    <string-array name="a">\n        <item>a</item>\n    </string-array>\n'
    )
    array += "</resources>\n"
    assert "string-array" in read("a.xml", array.encode()).problems[0]
    codes = MEMORY.format("").replace("a dog", 'a <bpt i="1">x</bpt>dog<ept i="1">y</ept>')
    with pytest.raises(DataError, match="codes"):
        read("a.tmx", codes.encode())
