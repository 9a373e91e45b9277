"""Attributes of HTML that readers see, and books, whose pages must stay well-formed."""

import time
from xml.etree import ElementTree

import pytest
from helpers.document_files import read, translate
from helpers.office_files import book, member
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq.text.documents.files.pages import UNREAD

PAGES = ["OEBPS/page 0.xhtml", "OEBPS/page 1.xhtml"]


def sentences_of(name: str, data: bytes) -> list[str]:
    return [each for document in read(name, data).documents for each in document.sentences]


@pytest.mark.parametrize(
    ("page", "translated"),
    [
        ('<img alt="a dog">', '<img alt="A DOG">'),
        ("<p>see <img src=a.png ALT='a dog' title=\"the dog\"> here</p>",
         "<p>SEE <img src=a.png ALT='A DOG' title=\"THE DOG\"> HERE</p>"),
        ('<input placeholder="your name" value="stays"><a aria-label="go back" href="a b">x y</a>',
         '<input placeholder="YOUR NAME" value="stays"><a aria-label="GO BACK" href="a b">X Y</a>'),
        ('<a data-x=\' alt="not this"\' title="this one">word</a>',
         '<a data-x=\' alt="not this"\' title="THIS ONE">WORD</a>'),
        ('<div translate="no"><img alt="not this"></div><img translate="no" alt="nor this">',) * 2,
        ('<code title="not this">x</code><script>a = \'<img alt="nor this">\'</script>',) * 2,
        ('<!-- <img alt="not this"> --><meta content="nor this">',) * 2,
        ('<img alt="Tom &amp; Jerry">', '<img alt="TOM &amp; JERRY">'),
        ('<img alt=""><img alt="12,5">',) * 2,
        ('<img alt="a\n  dog">', '<img alt="A DOG">'),
        ('<img alt="a&#10;dog">', '<img alt="A&#10;DOG">'),
    ],
)  # fmt: skip
def test_attributes_for_readers_are_translated(page: str, translated: str) -> None:
    assert translate("a.html", page.encode()).decode() == translated
    assert translate("a.html", page.encode(), str).decode() == page


def test_quotation_marks_in_a_translation_do_not_end_an_attribute() -> None:
    new = translate("a.html", b'<img alt="a dog">', lambda text: "\"x\" <'y'>").decode()
    assert new == '<img alt="&quot;x&quot; &lt;&#39;y&#39;&gt;">'


def test_attributes_follow_their_tags() -> None:
    page = '<p>one <b title="first word">two</b> <i title="second word">three</i></p>'
    contents = read("a.html", page.encode())
    (text, *titles) = contents.documents
    moved = text.join(["x y z"], "en")
    new = contents.write([moved, *(each.sentences[0].upper() for each in titles)]).decode()
    assert '<b title="FIRST WORD">' in new and '<i title="SECOND WORD">' in new


def test_a_book_has_its_pages_in_reading_order_and_its_contents() -> None:
    ncx = (
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>A book</text></docTitle>'
        "<navMap><navPoint><navLabel><text>One &amp; two</text></navLabel></navPoint></navMap>"
        "</ncx>"
    )
    item = '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    data = book("<p>Second</p>", "<p>First</p>", more=item, others=(("OEBPS/toc.ncx", ncx),))
    assert sentences_of("a.epub", data) == ["First", "Second", "A book", "One & two"]
    new = translate("a.epub", data)
    assert translate("a.epub", data, str) == data and new[30:38] == b"mimetype"
    assert member(new, "OEBPS/toc.ncx") == ncx.replace("A book", "A BOOK").replace(
        "One &amp; two", "ONE &amp; TWO"
    )
    assert member(new, "OEBPS/book.opf") == member(data, "OEBPS/book.opf")


@pytest.mark.parametrize(
    ("page", "sentences"),
    [
        ('<p>A dog<a id="x"/> runs</p>', ["A dog runs"]),
        ("<p>one<script src='a'/> two</p><p>three</p>", ["one two", "three"]),
        ("<pre/><p>after an empty element</p><code/>", ["after an empty element"]),
        ("<div>outside<p>inside</p>after</div>", ["outside", "inside", "after"]),
        ('<p>look <img src="a" alt="A dog"/> here</p>', ["look here", "A dog"]),
        ("<p>not&nbsp;broken &#8211; really</p>", ["not broken – really"]),
        ("<p>use <code>x = 1</code> here</p><pre>not this</pre>", ["use x = 1 here"]),
    ],
)
def test_the_texts_of_a_page(page: str, sentences: list[str]) -> None:
    data = book(page)
    assert sentences_of("a.epub", data) == sentences
    assert translate("a.epub", data, str) == data
    xml = member(translate("a.epub", data), PAGES[0]).replace("&nbsp;", " ")
    ElementTree.fromstring(xml)
    assert all(each.upper() in xml or "code" in xml for each in sentences[1:])


@pytest.mark.parametrize("kind", ["text/html", "text/x-oeb1-document"])
def test_pages_of_a_book_may_have_an_old_type(kind: str) -> None:
    item = f'<item id="old" href="old.html" media-type="{kind}"/>'
    page = ("OEBPS/old.html", "<html><body><p>An old page</p></body></html>")
    data = book("<p>A new page</p>", more=item, others=(page,))
    assert sentences_of("a.epub", data) == ["A new page", "An old page"]
    assert member(translate("a.epub", data), page[0]) == page[1].replace(
        "An old page", "AN OLD PAGE"
    )


def test_text_that_is_not_read_is_named() -> None:
    style = "<style><![CDATA[a dog {}]]></style><svg><text><![CDATA[a cat]]></text></svg>"
    unread = "<script/><!-- <svg> <![CDATA[a cow]]> --><?a <math> ?>"
    data = book(f"{unread}{style}<p><![CDATA[A dog]]> runs</p><script>a()</script>")
    (problem,) = read("a.epub", data).problems
    assert "'A dog' is not translated" in problem


@pytest.mark.parametrize("inside", ["<![CDATA[b > c]]>", "<?a b > c <i> ?>", "<![CDATA[]]>"])
def test_a_section_or_an_instruction_ends_at_its_own_end(inside: str) -> None:
    data = book(f"<p>one {inside}</p><p>two &gt; <!-- <![CDATA[ --> three</p>")
    assert sentences_of("a.epub", data) == ["one", "two > three"]
    new = member(translate("a.epub", data), PAGES[0])
    assert f"ONE {inside}" in new and "TWO &gt; <!-- <![CDATA[ --> THREE" in new


@pytest.mark.parametrize("unit", ["<script/>", "<svg:a/>", "<!-- <script> -->", "<?a <script> ?>"])
def test_what_has_no_end_tag_takes_linear_time(unit: str) -> None:
    page = f'<html xmlns:svg="a">{unit * 50_000}</html>'
    begun = time.process_time()
    assert not [*filter(None, (found for _, found in UNREAD.findall(page)))]
    assert time.process_time() - begun < 5


def test_fonts_may_be_hidden() -> None:
    """Many publishers hide fonts only, which leaves the text readable."""
    font = (
        '<e xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:CipherReference URI="OEBPS/a.ttf"/></e>'
    )
    data = book("<p>A dog</p>", others=(("META-INF/encryption.xml", font),))
    assert "A DOG" in member(translate("a.epub", data), PAGES[0])


HTML = st.recursive(
    st.sampled_from(
        ["A dog. ", "runs &amp; sleeps", " ", "<br/>", '<a id="x"/>', '<img alt="B"/>']
    ),
    lambda inner: st.builds(
        "<{0}>{1}</{0}>".format,
        st.sampled_from(["b", "i", "p", "div", "code", "ruby", "sup", "script"]),
        st.lists(inner, max_size=4).map("".join),
    ),
    max_leaves=16,
)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(HTML, min_size=1, max_size=5), st.booleans())
def test_any_page_stays_well_formed_with_all_its_elements(parts: list[str], whole: bool) -> None:
    data = book("".join(parts))
    before = member(data, PAGES[0])
    assert translate("a.epub", data, str, whole) == data
    for by in (str.upper, lambda text: " ".join(text.split()[::-1]), lambda text: "x. y"):
        after = member(translate("a.epub", data, by, whole), PAGES[0])
        tags = [
            sorted(each.tag for each in ElementTree.fromstring(xml).iter())
            for xml in (before, after)
        ]
        assert tags[0] == tags[1]
