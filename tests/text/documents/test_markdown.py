"""Markdown and its dialects: only the sentences change, and all markup stays."""

import re
import time
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from seq2seq.base.errors import DataError
from seq2seq.text.documents.files import markdown_parser
from seq2seq.text.documents.files.contents import Contents, Cutter
from seq2seq.text.documents.files.formats import open_file

PAGE = """---
title: Der Hund schläft.
---
# Der Garten {#garden}

> [!NOTE]
> Der Hund schläft.

:::tip Der Hund
Das Kind läuft.
:::

!!! warning "Der Hund"
    Das Kind schläft.

{{< alert type="x" >}}Der Hund schläft.{{< /alert >}}

Der [<u>Hund</u>](https://a.b/c_d) läuft im ![Garten](g.png) **schönen** Garten.

Die Formel $a_1 + b_2$ und `x = 1` und $$\\sum_{i=1}^n x_i$$ sind lang.

- [ ] Der Hund schläft.
- [x] Das Kind läuft. :smile:

1. Der Hund schläft.
2. Das Kind läuft.

Der Hund schläft.  \n\
Das Kind läuft.\\
Der Garten ist lang.

| Hund | Zahl |
|------|-----:|
| Der Hund schläft. | 12 |

Siehe [den Garten][g] und [[Hund|das Kind]] und <https://a.b>.[^1]

Der Hund
: Das Kind schläft.

    Der Garten ist lang.

[g]: https://a.b "Der Hund"
[^1]: Der Hund schläft.

    Das Kind läuft.

```python
print("Der Hund")
```
"""
KEPT = ("title: Der Hund schläft.", "![Garten](g.png)", '"Der Hund"\n[^1]', "print(", "das Kind]]")


def read(text: str, whole: bool = True) -> Contents:
    return open_file("a.md", text.encode(), Cutter("de", whole))


def translate(text: str, by: Callable[[str], str] = str.upper, whole: bool = True) -> str:
    contents = read(text, whole)
    documents = contents.documents
    new = contents.write([d.join([by(each) for each in d.sentences]) for d in documents])
    assert contents.problems == []
    return new.decode()


def said(text: str) -> list[str]:
    """The sentences that are translated."""
    return [each for document in read(text).documents for each in document.sentences]


def structure(text: str) -> list[Counter[tuple[str, str]]]:
    """The kinds of blocks of a text, with the kinds and addresses of the tokens inside."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).use(front_matter_plugin)
    parser.use(footnote_plugin).use(deflist_plugin).use(admon_plugin)
    blocks = []
    for token in parser.parse(text):
        inside = [each for each in token.children or [] if each.type not in ("text", "softbreak")]
        kinds = Counter((each.type, str(each.attrs.get("href"))) for each in inside)
        blocks.append(Counter({(token.type, token.tag): 1}) + kinds)
    return blocks


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
@pytest.mark.parametrize("whole", [True, False])
def test_translated_as_itself_a_page_is_the_same(end: str, begin: str, whole: bool) -> None:
    text = begin + PAGE.replace("\n", end)
    assert translate(text, str, whole) == text
    assert "DER GARTEN" in translate(text, str.upper, whole)


def test_all_syntax_stays_and_all_sentences_are_translated() -> None:
    text = translate(PAGE)
    assert structure(text) == structure(PAGE)
    rest = text
    for kept in KEPT:
        rest = rest.replace(kept, "")
    assert not re.search(r"\b(?:der|hund|kind|garten|formel|schläft|läuft|sind|siehe)\b", rest)
    for kept in (
        "# DER GARTEN {#garden}\n",
        "> [!NOTE]\n> DER HUND SCHLÄFT.\n",
        ":::tip DER HUND\nDAS KIND LÄUFT.\n:::\n",
        '!!! warning "DER HUND"\n    DAS KIND SCHLÄFT.\n',
        '{{< alert type="x" >}}DER HUND SCHLÄFT.{{< /alert >}}\n',
        "[<u>HUND</u>](https://a.b/c_d)",
        "$a_1 + b_2$",
        "`x = 1`",
        "$$\\sum_{i=1}^n x_i$$",
        "- [ ] DER HUND",
        "- [x] DAS KIND LÄUFT. :smile:\n",
        "SCHLÄFT.  \nDAS KIND LÄUFT.\\\nDER GARTEN",
        "| DER HUND SCHLÄFT. | 12 |\n",
        "[DEN GARTEN][g]",
        "[[Hund|das Kind]]",
        "<https://a.b>.[^1]\n",
        "DER HUND\n: DAS KIND SCHLÄFT.\n\n    DER GARTEN IST LANG.\n",
        '[g]: https://a.b "Der Hund"\n[^1]: DER HUND SCHLÄFT.\n\n    DAS KIND LÄUFT.\n',
    ):
        assert kept in text


@pytest.mark.parametrize(
    ("text", "sentences", "upper"),
    [
        ("+++\ntitle = 1\n+++\nA b.", ["A b."], "+++\ntitle = 1\n+++\nA B."),
        ("---\n\na b\n\n---\n", ["a b"], "---\n\nA B\n\n---\n"),
        ("{% note %}\na b\n{% end %}\n", ["a b"], "{% note %}\nA B\n{% end %}\n"),
        ("a b\n{: .lead}\nc d", ["a b", "c d"], "A B\n{: .lead}\nC D"),
        ("a {{ b }} c", ["a c"], None),
        ("::: {.note title='x'}\na b\n:::", ["a b"], "::: {.note title='x'}\nA B\n:::"),
        (":::note[a b]{#c}\nd e\n:::", ["a b", "d e"], ":::note[A B]{#c}\nD E\n:::"),
        (":::{figure} a/b.png\nc d\n:::", ["c d"], ":::{figure} a/b.png\nC D\n:::"),
        ("/// note | a b\nc d\n///", ["a b", "c d"], "/// note | A B\nC D\n///"),
        ("> [!tip]- a b\n> c d", ["a b", "c d"], "> [!tip]- A B\n> C D"),
        ('??? note\n    a b\n\n=== "c d"\n    e f', ["a b", "c d", "e f"],
         '??? note\n    A B\n\n=== "C D"\n    E F'),
        ("!!! Note\n    a b", ["a b"], "!!! Note\n    A B"),
        ("a b^[c d] e", ["a b e", "c d"], None),
        ("a | b\n-|-\na | b", ["a", "b", "a", "b"], "A | B\n-|-\nA | B"),
        ("|a|\n|-|\n|b \\| c `d\\|e`|", ["a", "b | c d|e"], "|A|\n|-|\n|B \\| C `d\\|e`|"),
        ("# a # b #\n## c\n===", ["a # b", "c"], "# A # B #\n## C\n==="),
        ("- a\n\n\tb c\n  \td e", ["a", "b c d e"], None),
        ("a $5 b $10 c", ["a $5 b $10 c"], "A $5 B $10 C"),
        ("$$\na\n$$\nb c", ["b c"], "$$\na\n$$\nB C"),
        ("[TOC]\n\na", ["a"], "[TOC]\n\nA"),
        ("10:30:15 a b: c", ["10:30:15 a b: c"], "10:30:15 A B: C"),
        ("\\* a\\_b c", ["a_b c"], "\\* A\\_B C"),
        ("* * *\n\na\n-\n", ["a"], "* * *\n\nA\n-\n"),
        ("a\0b c", ["a\ufffdb c"], "A\ufffdB C"),
        ('[a b]({{< ref "b.md" >}}) c', ["a b c"], '[A B]({{< ref "b.md" >}}) C'),
        ("[a b]({% link a.md %}) c", ["a b c"], "[A B]({% link a.md %}) C"),
        ("[a]({{ b }}{% c d %}) e", ["a e"], "[A]({{ b }}{% c d %}) E"),
        ('![a]({{ b }}/c d.png "e") f', ["f"], '![a]({{ b }}/c d.png "e") F'),
        ("[a]: {{ b }}\n\n[c d][a]", ["c d"], "[a]: {{ b }}\n\n[C D][a]"),
        ("{% highlight b %}\na b\n\nc\n{% endhighlight %}\na b", ["a b"],
         "{% highlight b %}\na b\n\nc\n{% endhighlight %}\nA B"),
        ("> {{< highlight b >}}\n> a b\n> {{< /highlight >}}\n\na b", ["a b"],
         "> {{< highlight b >}}\n> a b\n> {{< /highlight >}}\n\nA B"),
        ("{% highlight b %}a b{% endhighlight %} c", ["c"],
         "{% highlight b %}a b{% endhighlight %} C"),
        ("{% highlight b %}\na b", ["a b"], "{% highlight b %}\nA B"),
        ("import A, {b} from 'c'\nexport const d = {\n  e: 'f g'\n}\n\na b", ["a b"],
         "import A, {b} from 'c'\nexport const d = {\n  e: 'f g'\n}\n\nA B"),
        ("export * from 'a'\n\nexport default A\n\na", ["a"],
         "export * from 'a'\n\nexport default A\n\nA"),
        ("a\nexport default b.", ["a export default b."], "A EXPORT DEFAULT B."),
        ("import a from b.", ["import a from b."], "IMPORT A FROM B."),
        ("a {/* b c */} d", ["a d"], "A {/* b c */} D"),
        ("*[HTML]: a b\n*[W3C]: c d\n\na b", ["a b"], "*[HTML]: a b\n*[W3C]: c d\n\nA B"),
        ("[a](b){ .md-button }\n\n# a b { #c .d }", ["a", "a b"],
         "[A](b){ .md-button }\n\n# A B { #c .d }"),
        ("a <kbd>b c</kbd> d", ["a b c d"], "A <kbd>b c</kbd> D"),
        ('> a <b translate="no">*b*\n> <b>c</b></b> d', ["a *b* c d"],
         '> A <b translate="no">*b* <b>c</b></b> D'),
        ("a <code>b", ["a b"], "A <code>B"),
        ("a ++ctrl+alt++ b", ["a b"], "A ++ctrl+alt++ B"),
        ("c++ a c++", ["c++ a c++"], "C++ A C++"),
        ("a ==b c== d ^^*e*^^", ["a b c d e"], "A ==B C== D ^^*E*^^"),
        ("a == b == c", ["a == b == c"], "A == B == C"),
        ("H~2~O ist x^2^", ["HO ist x"], "H~2~O IST X^2^"),
        ('[a b](http://a.b/c_(d) "e f") g', ["a b g"], '[A B](http://a.b/c_(d) "e f") G'),
        ("[a] [b c][a]\n\n[a]: d", ["a b c"], "[A][a] [B C][a]\n\n[a]: d"),
        ("a  \nb \\* &amp; <b>c</b>", ["a b * & c"], "A  \nB \\* &amp; <b>C</b>"),
        ("> a\n> b\n\n- c\n  1. d", ["a b", "c", "d"], "> A B\n\n- C\n  1. D"),
        ("|a|\n|:-:|\n|b **c**|", ["a", "b c"], "|A|\n|:-:|\n|B **C**|"),
        ("<div>\na\n</div>\n\nb", ["b"], "<div>\na\n</div>\n\nB"),
    ],
)  # fmt: skip
def test_dialects(text: str, sentences: list[str], upper: str | None) -> None:
    assert sorted(said(text)) == sorted(sentences) or upper is None
    assert translate(text, str) == text
    if upper:
        assert translate(text) == upper


@pytest.mark.parametrize(
    ("text", "new", "expected"),
    [
        # What would begin another block, or another span, is escaped.
        ("Der erste Mai ist frei.", "1. Mai ist frei.", "1\\. Mai ist frei."),
        ("a b", "- c", "\\- c"),
        ("a b", "# c", "\\# c"),
        ("a b", "*c* d", "\\*c\\* d"),
        ("a b", "[c]: d", "\\[c\\]: d"),
        ("# a b", "1. c", "# 1. c"),
        ("|a|\n|-|\n|b|", "c | d", "|c \\| d|\n|-|\n|c \\| d|"),
        (':::tip "a b"\n:::', 'c "d"', ':::tip "c ”d”"\n:::'),
        # Emphasis that would mean nothing beside a letter gets space.
        ("**a.** b", "狗。猫", "**狗。** 猫"),
    ],
)
def test_no_translation_changes_the_markup(text: str, new: str, expected: str) -> None:
    assert translate(text, lambda _: new) == expected


def test_a_block_that_would_be_another_stays_and_is_named() -> None:
    contents = read("a `b` c\n\nd e")
    sentences = [each.join([""] * len(each.sentences)) for each in contents.documents]
    new = contents.write(sentences).decode()
    assert new == "a `b` c\n\nd e" or "`b`" in new
    assert any("line 3 is not translated" in each for each in contents.problems)
    contents.write(sentences)
    assert len(contents.problems) == len(set(contents.problems))


SYMBOLS = ["`", "*", "_", "[", "]", "(", ")", "<", ">", "!", "|", "#", "$", "{", "}", ":", "^", "~"]
LINES = ["\n", "\n\n", "    ", "\t", "> ", "- ", "1. ", "-|-\n", "```\n", ":::a\n", "!!! b\n", ": "]
WORDS = [
    "a",
    "Der Hund",
    "[^1]",
    "[!NOTE]",
    "{{< a >}}",
    "{% b %}",
    "{#c}",
    "[[d|e]]",
    "&amp;",
    "\\",
]
WORDS += ["[a](b)", "[^1]: ", "[a]: b\n", "$$\n", "<b>", "</b>", "  \n", "\\\n", "---\n", '"a b"']


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from([*SYMBOLS, *LINES, *WORDS])))
def test_any_text_comes_back_or_keeps_its_structure(parts: list[str]) -> None:
    text = "".join(parts)
    for whole in (True, False):
        contents = read(text, whole)
        documents = contents.documents
        same = [each.join(each.sentences) for each in documents]
        assert contents.write(same).decode() == text
        upper = [each.join([one.upper() for one in each.sentences]) for each in documents]
        new = contents.write(upper).decode()
        kinds = [Counter(each.type for each in MarkdownIt().parse(one)) for one in (text, new)]
        assert kinds[0]["fence"] == kinds[1]["fence"]
        assert read(new).documents.__len__() == len(documents)


DEEP = {"> ": "levels deep", "* - ": "levels deep", "1. ": "levels deep", "[^a]: ": "levels deep"}
MANY = {"a\n": "200,000 lines", "\n": "200,000 lines", "*a* ": "200,000 blocks", "|a\n": "lines"}


@pytest.mark.parametrize(("unit", "message"), [*DEEP.items(), *MANY.items()])
def test_too_much_structure_is_refused_while_it_is_parsed(unit: str, message: str) -> None:
    begun = time.process_time()
    with pytest.raises(DataError, match=message):
        read(unit * (2**20 // len(unit)))
    assert time.process_time() - begun < 10


def test_what_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="notes"):
        read("^[" * 5000 + "]" * 5000)
    assert len(read("[" * 1000).documents) == 1
    monkeypatch.setattr(markdown_parser, "SECONDS", 0.0)
    with pytest.raises(DataError, match="takes more than"):
        read("a *b*")


UNITS = [
    "- a\n", "a\n\n", "[", "***", "*a ", "*a _b ", "](", "![]((", "[a](", "`a ", "<a ", "$a ",
    "$$ a\n", "|a", "|a\n", "> a\n", "^[a]\n\n", "a|b\n-|-\n", ": a\n", "!!! a\n", ":::a b\n",
    "[^a]", "{{<", "{%", "[[", ":a", "[a]({{b}}", "{{b}}", "{/* *", "==a ", "<kbd>a ",
    "{% highlight %}\n", "=\n", "a  \n",
]  # fmt: skip


def test_a_line_with_much_space_takes_linear_time() -> None:
    begun = time.process_time()
    for text in ("::: a{}[x", ":::\t{}b[", "::: a{}:[x", "::: a{}{{"):
        read(text.format(" " * 100_000))
    assert time.process_time() - begun < 10  # a quadratic step would take 80 s for each


def test_many_comments_that_never_end_are_read() -> None:
    text = "a dog {/* " * 20_000  # in quadratic time it would be refused after 8 s
    assert len(read(text).documents) == 1


@pytest.mark.parametrize("unit", UNITS)
def test_time_grows_with_the_page(unit: str) -> None:
    def cost(size: int) -> float:
        contents = read(unit * (size // len(unit)))
        texts = [each.join([one.upper() for one in each.sentences]) for each in contents.documents]
        contents.write(texts)
        return time.process_time()

    begun = time.process_time()
    small = cost(2500) - begun
    assert cost(10_000) - begun - small < 7 * small + 0.5
