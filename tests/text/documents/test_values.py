"""Files of names and values: only the values change, byte for byte."""

import json
import re

import pytest
from helpers.document_files import read, translate
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.base.errors import DataError

FILES = {
    "a.json": ('{"a dog": "a dog",\n "b": ["two dogs", 3.50, true, null, [], {}] }\n',
               '{"a dog": "A DOG",\n "b": ["TWO DOGS", 3.50, true, null, [], {}] }\n'),
    "end.json": ('\ufeff{\r\n\t"a" : "a \\"big\\" dog"\r\n}',
                 '\ufeff{\r\n\t"a" : "A \\"BIG\\" DOG"\r\n}'),
    "escaped.json": ('["gr\\u00fcn", "a\\/b", "\\ud83d\\ude00 dog"]',
                     '["GR\\u00dcN", "A/B", "\\ud83d\\ude00 DOG"]'),
    "a.properties": ("# not this\na = a dog\nb=gr\\u00fcn {0}\n\n! not\nc : two dogs\nd=\ne\n",
                     "# not this\na = A DOG\nb=GR\\u00dcN {0}\n\n! not\nc : TWO DOGS\nd=\ne\n"),
    "key.properties": ("f\\ g x\\:y z\n  h\\=i\tj k", "f\\ g X:Y Z\n  h\\=i\tJ K"),
    "lines.properties": ("a=two \\\r\n  dogs\r\nb\r\nc = one\\ntwo",
                         "a=TWO DOGS\r\nb\r\nc = ONE\\nTWO"),
    "a.strings": ('/* not "this" = "x"; */\n"a" = "a dog\\n\\"big\\"";\n// nor = "this";\n',
                  '/* not "this" = "x"; */\n"a" = "A DOG\\n\\"BIG\\"";\n// nor = "this";\n'),
    "b.strings": ('a="two \\\'dogs\\\'";\t"b c" =\n"\\U00e4h %@";',
                  'a="TWO \'DOGS\'";\t"b c" =\n"ÄH %@";'),
}  # fmt: skip


def upper(text: str) -> str:
    """The text in capital letters, except its placeholders."""
    return " ".join(word if "{" in word else word.upper() for word in text.split())


@pytest.mark.parametrize("name", FILES)
def test_only_values_change(name: str) -> None:
    before, after = FILES[name]
    assert translate(name, before.encode(), str) == before.encode()
    assert translate(name, before.encode(), upper).decode() == after
    assert read(name, before.encode()).problems == []


@pytest.mark.parametrize("text", ["\"x\" 'y' \\ <z> & # : = 東京 😀", "a\tb \\n c"])
def test_a_translation_may_contain_any_character(text: str) -> None:
    contents = read("a.json", b'{"a": "two dogs", "b": 1}')
    (document,) = contents.documents
    assert json.loads(contents.write([document.join([text])])) == {"a": text, "b": 1}


VALUES = st.recursive(
    st.sampled_from(["a dog", "12", "x\n\ty", '"', "-1", ""]) | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_any_json_keeps_its_keys_and_other_values(value: object, indent: int, ascii: bool) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii).encode("utf-8", "replace")
    assert translate("a.json", data, str) == data
    new = json.loads(translate("a.json", data))

    def changed(part: object) -> object:
        if isinstance(part, dict):
            return {key: changed(each) for key, each in part.items()}
        if isinstance(part, list):
            return [*map(changed, part)]
        return part.upper() if part in ("a dog", "x\n\ty") else part

    assert new == changed(json.loads(data))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{'a'", "not valid JSON: .*line 1"),
        ("a.json", "[" * 100_000 + "]" * 100_000, "not valid JSON"),
        ("a.json", "", "not valid JSON"),
        ("a.strings", '"a" = "x y"\n"b" = "z";', "line 1: .* is not a name"),
        ("a.strings", '"a" = "b";\n/* open', "line 2"),
        ("a.strings", "<plist/>", "line 1"),
        ("a.strings", '"a" = "caf\\351 here";', "line 1: .* or has octal escapes"),
        ("a.properties", "a=b\n=c", "line 2"),
    ],
)
def test_other_text_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        read(name, text.encode())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["a.json", "a.properties"])
def test_half_a_pair_of_surrogates_is_no_reason_to_fail(name: str) -> None:
    data = b'{"a": "x \\ud800 y z"}' if name == "a.json" else b"a = x \\ud800 y z\n"
    assert translate(name, data, str) == data
    assert "ONE" in translate(name, data, lambda _: "ONE").decode()


@pytest.mark.parametrize("before", ["key=", "key : ", "key "])
@pytest.mark.parametrize("new", [" a", "=a", ": a", "a = b", "#a", "\\ a"])
def test_the_first_character_of_a_value_is_not_taken_for_a_separator(before: str, new: str) -> None:
    """The values of .properties as Java reads them, after white space and one separator."""
    written = translate("a.properties", f"{before}\\ x\n".encode(), lambda _: new).decode()
    value = re.fullmatch(r"key[ \t]*[=:]?[ \t]*(.*)\n", written)
    # A text keeps the white space around it, here one space.
    assert value and re.sub(r"\\(.)", r"\1", value[1]) == f" {new.strip()}"


def test_a_message_that_would_lose_its_placeholder_stays() -> None:
    data = b'{\n  "a": "a dog {name}",\n  "b": "%d dogs %s",\n  "c": "100 % sure"\n}\n'
    contents = read("a.json", data)
    new = json.loads(contents.write(["one", "two %s %d", "three"]))
    assert new == {"a": "a dog {name}", "b": "%d dogs %s", "c": "three"}
    assert len(contents.problems) == 2 and "line 2: 'a dog {name}'" in contents.problems[0]
