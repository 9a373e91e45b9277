"""Tags inside sentences: taken out, and put back around the words that are linked."""

import random
import re
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.alignment.choice import NEAREST, Alignment, Choice
from seq2seq.alignment.links import NEIGHBOUR, PRIOR, words_and_marks
from seq2seq.base.errors import DataError
from seq2seq.text.documents.document import Document, spans_of
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.inline import MAX_TAGS
from seq2seq.text.documents.markup import Reader
from seq2seq.text.documents.placing import WordLinks
from seq2seq.text.documents.xml_markup import XMLReader

TAG = re.compile(r"<[^<>]*>")
WORDS = ["Hund", "Katze", "läuft", "schnell", "über", "die", "Wiese", "und", "bellt", "laut"]
SEEDS = st.integers(0, 2**32 - 1)


def random_tree(draw: random.Random, words: list[str], depth: int = 0) -> str:
    """Words in their order with well-nested tags of names of their own among them."""
    parts = []
    while words:
        count = draw.randint(1, len(words))
        part, words = words[:count], words[count:]
        text = random_tree(draw, part, depth + 1) if draw.random() < 0.6 and depth < 3 else None
        text = " ".join(part) if text is None else text
        name = f"t{draw.randrange(10**9)}"
        if draw.random() < 0.6:
            space = draw.choice(["", "", " "])
            text = f'<{name} a="b">{space}{text}{space}</{name}>'
        parts.append(
            text + draw.choice(["", "", "", f"<{name}x/>", f"<i{name}></i{name}>", "<br>"])
        )
    return " ".join(parts)


def random_links(draw: random.Random, source: str, target: str) -> WordLinks:
    spans = spans_of(source), spans_of(target)
    count = draw.randint(0, len(spans[1]) + 2)
    links = {(draw.randrange(len(spans[0])), draw.randrange(len(spans[1]))) for _ in range(count)}
    nearest = [draw.choice([None, *range(len(spans[1]))]) for _ in spans[0]]
    return WordLinks(*spans, links, nearest)


def is_well_nested(text: str) -> bool:
    names: list[str] = []
    for tag in TAG.findall(text):
        name = re.findall(r"[a-z0-9]+", tag)[0]
        if tag.startswith("</"):
            if not names or names.pop() != name:
                return False
        elif not tag.endswith("/>") and name != "br":
            names.append(name)
    return not names


@pytest.mark.parametrize("read", [read_html, XMLReader(outline=False)])
@given(SEEDS)
def test_no_tag_is_lost_or_doubled_and_all_stay_well_nested(read: Reader, seed: int) -> None:
    draw = random.Random(seed)
    words = draw.choices(WORDS, k=draw.randint(1, 12))
    text = random_tree(draw, words)
    if read is not read_html:
        text = text.replace("<br>", "<br/>")
    document = Document.of(text, "de", read=read, split="none")
    (sentence,) = document.sentences
    assert sentence.split() == words and document.join([sentence]) == text
    translation = " ".join(f"x{n}" for n in range(draw.randint(1, 15)))
    joined = document.join([translation], links=[random_links(draw, sentence, translation)])
    assert sorted(TAG.findall(joined)) == sorted(TAG.findall(text))
    assert is_well_nested(joined), (text, joined)
    assert TAG.sub(" ", joined).split() == translation.split(), joined


@given(SEEDS)
def test_tags_are_around_what_their_words_became_wherever_that_is(seed: int) -> None:
    """Phrases in tags move as wholes, in any order."""
    draw = random.Random(seed)
    phrases = [draw.choices(WORDS, k=draw.randint(1, 4)) for _ in range(draw.randint(1, 5))]
    source = [
        f"<t{n}>{' '.join(each)}</t{n}>" if n % 2 else " ".join(each)
        for n, each in enumerate(phrases)
    ]
    order = draw.sample(range(len(phrases)), len(phrases))
    starts = [0]
    for phrase in phrases:
        starts.append(starts[-1] + len(phrase))
    moved = [starts[n] + k for n in order for k in range(len(phrases[n]))]
    expected, translation = [], []
    for n in order:
        upper = " ".join(phrases[n]).upper()
        expected.append(f"<t{n}>{upper}</t{n}>" if n % 2 else upper)
        translation.append(upper)
    document = Document.of(" ".join(source), "de", read=read_html, split="none")
    target = " ".join(translation)
    if not document.elements[0]:  # the whole is in one pair of tags
        return
    links = {(i, j) for j, i in enumerate(moved)}
    known = WordLinks(spans_of(document.sentences[0]), spans_of(target), links)
    assert document.join([target], links=[known]) == " ".join(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ein <b>Hund</b> läuft.", "EIN <b>HUND</b> LÄUFT."),
        ("Ein Hunde<b>haus</b> da", "EIN <b>HUNDEHAUS</b> DA"),
        ("Ein<br>Hund", "EIN<br>HUND"),
        ("Ein <br> Hund", "EIN <br> HUND"),
        ("Ein <br>Hund", "EIN <br>HUND"),
        ("Ein<img src=a> Hund", "EIN<img src=a> HUND"),
        ("Ein <b></b>Hund", "EIN <b></b>HUND"),
        ("Ein<b> Hund </b>da", "EIN<b> HUND </b>DA"),
        ("<i><b>Ein</b> Hund</i>", "<i><b>EIN</b> HUND</i>"),
        ("<b>- Ein</b> Hund &amp; <i>Kind </i>", "<b>- EIN</b> HUND &amp; <i>KIND </i>"),
        ("Ein <b>Hund. Zwei</b> Hunde.", "EIN <b>HUND. ZWEI</b> HUNDE."),
        ("Ein <b>Hund <i>da</b> hin</i>.", "EIN <b>HUND <i>DA</b> HIN</i>."),
        ("<p>Ein <b>Hund<p>Zwei</b>", "<p>EIN <b>HUND<p>ZWEI</b>"),
        ("Ein <!-- a --> Hund", "EIN <!-- a --> HUND"),
    ],
)
def test_where_the_order_of_words_stays_tags_do(text: str, expected: str) -> None:
    document = Document.of(text, "de", read=read_html)
    assert document.join(document.sentences) == text
    assert document.join([sentence.upper() for sentence in document.sentences]) == expected


def test_a_block_ends_a_sentence_and_other_tags_do_not() -> None:
    text = "<div>Ein <b>Hund</b> <x-y>läuft</x-y><p>weit<td>und<hr>breit</div>"
    sentences = Document.of(text, "de", read=read_html).sentences
    assert sentences == ["Ein Hund läuft", "weit", "und", "breit"]
    apart = Document.of(text, "de", read=read_html, whole=False).sentences
    assert apart == ["Ein", "Hund", "läuft", "weit", "und", "breit"]


def test_what_is_not_translated_is_copied_as_one_piece() -> None:
    keys, name = "<kbd>a <b>&amp; b</b></kbd>", '<i translate="no">Ex. 1</i>'
    text = f"Drück {keys}, {name}! Da <code>x</code> <svg>n</svg>da"
    document = Document.of(text, "de", read=read_html)
    assert document.sentences == ["Drück a & b, Ex. 1!", "Da x da"]
    assert [document.copies(n) for n in range(2)] == [["a & b", "Ex. 1"], ["x"]]
    joined = document.join(["Press Ex. 1 or a & b!", "there: there x"]).replace("<svg>n</svg>", "")
    assert joined == f"Press {name} or {keys}! there: there <code>x</code>"
    lost = document.join(["Press something!", "there"])
    assert all(lost.count(each) == 1 for each in (keys, name, "<code>x</code>", "<svg>n</svg>"))
    assert Document.of("<p><code>x</code></p>", "de", read=read_html).sentences == []


def test_a_paragraph_of_very_many_tags_is_cut_at_them() -> None:
    text = "ein <b>Wort</b> " * MAX_TAGS
    document = Document.of(text, "de", read=read_html)
    assert len(document.sentences) == 2 * MAX_TAGS and not any(document.elements)
    assert document.join(document.sentences) == text


def test_deep_elements_stay_well_nested() -> None:
    names = [f"t{n}" for n in range(100)]
    text = "a " + "".join(f"<{n}>b " for n in names) + "".join(f"</{n}> c" for n in names[::-1])
    document = Document.of(text, "de", read=read_html)
    joined = document.join([document.sentences[0].upper()])
    assert is_well_nested(joined) and sorted(TAG.findall(joined)) == sorted(TAG.findall(text))


@given(
    st.lists(st.sampled_from(["<a>", "</a>", "<b/>", "<!--x-->", "<?p?>", "é", " ", "&lt;", "]"]))
)
def test_tokens_of_xml_are_its_parts(parts: list[str]) -> None:
    depth, text = 0, ""
    for part in parts:
        depth += (part == "<a>") - (part == "</a>")
        if depth < 0:
            depth = 0
            continue
        text += part
    text += "</a>" * depth
    tokens = XMLReader(outline=False)(text)
    assert [token.begin for token in tokens[:1]] == [0] and tokens[-1].end == len(text)
    assert all(left.end == right.begin for left, right in pairwise(tokens))
    found = {kind: [t for t in tokens if t.kind == kind] for kind in ("open", "close", "alone")}
    assert [text[t.begin : t.end] for t in found["open"]] == re.findall("<a>|<b/>", text)
    assert len(found["open"]) == len(found["close"])
    assert [text[t.begin : t.end] for t in found["alone"]] == re.findall(r"<!--x-->|<\?p\?>", text)


def test_elements_of_xml_beside_text_are_inside_sentences() -> None:
    text = "<?xml version='1.0'?><d><p>Ein <b>Hund</b> da</p>\n<p>Zwei<x/></p><q>Ein</q></d>"
    assert Document.of(text, "de", read=XMLReader()).sentences == ["Ein Hund da", "Zwei", "Ein"]
    some = XMLReader(splitting={"b"}, outline=False)
    assert Document.of(text, "de", read=some).sentences == ["Ein", "Hund", "da ZweiEin"]
    inline = XMLReader(inline={"p", "q", "x"})
    assert Document.of(text, "de", read=inline).sentences[0].startswith("Ein Hund da Zwei")
    ignored = XMLReader(copied={"b", "q"})
    document = Document.of(text, "de", read=ignored)
    assert document.sentences == ["Ein Hund da", "Zwei"] and document.copies(0) == ["Hund"]


@pytest.mark.parametrize(
    "text",
    [
        *("<a>", "</a>", "<a><b></a></b>", "a < b", "&nbsp;", "\0", "\ud800", "<a b=c/>", "]]>"),
        '<!DOCTYPE d [<!ENTITY a "b">]><d>&a;</d>',
        '<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/passwd">]><d>&a;</d>',
        '<d><!DOCTYPE d SYSTEM "http://a.b/c"></d>',
    ],
)
def test_what_is_no_xml_and_what_declares_entities_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="not well-formed XML"):
        XMLReader()(text)


@given(SEEDS)
def test_best_links_are_those_of_the_definition(seed: int) -> None:
    draw = random.Random(seed)
    source, target = (
        words_and_marks(" ".join(draw.choices(["ab", "c-d", ",", "."], k=draw.randint(1, 6))))
        for _ in range(2)
    )
    t, s = len(target), len(source)
    weights = [[draw.choice([0.0, draw.random()]) for _ in range(s + 1)] for _ in range(t)]
    alike = [[(a.text in ",.") == (b.text in ",.") for b in source] for a in target]
    sums = [sum(weights[j][i] for j in range(t) if alike[j][i]) for i in range(s)]
    share = [[weights[j][i] * alike[j][i] / (sums[i] + PRIOR) for i in range(s)] for j in range(t)]
    row = [[x / max(sum(each), 1e-9) for x in each] for each in share]

    def at(j: int, i: int) -> float:
        return row[j][i] if 0 <= j < t and 0 <= i < s else 0.0

    expected = set()
    for j in range(t):
        values = [
            (at(j, i) + NEIGHBOUR * (at(j - 1, i - 1) + at(j + 1, i + 1))) * (share[j][i] > 0)
            for i in range(s)
        ]
        largest = max(weights[j][i] * alike[j][i] for i in range(s))
        if max(values) > 0 and largest >= weights[j][s]:  # not the end of the source
            expected.add((values.index(max(values)), j))
    # Weights as they come, in single precision.
    maps = torch.tensor(weights, dtype=torch.float64)[None, None, None]
    links, nearest_targets = Alignment(source, target, maps).best_links(Choice(0, 0, 0))
    assert links == expected
    for i, nearest in enumerate(nearest_targets):
        column = [share[j][i] for j in range(t)]
        wanted = column.index(max(column)) if max(column) >= NEAREST else None
        assert nearest == wanted


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ('A man <x id="1"/> runs.', "Ein Mann rennt.", 'Ein Mann <x id="1"/> rennt.'),
        ("A man <img src=a> runs.", "Ein Mann rennt.", "Ein Mann <img src=a> rennt."),
        ("A man<x-y></x-y> runs.", "Ein Mann rennt.", "Ein Mann<x-y></x-y> rennt."),
        ("A man <x-y></x-y>runs.", "Ein Mann rennt.", "Ein Mann <x-y></x-y>rennt."),
        ("A man <x/><y/> runs.", "Ein Mann rennt.", "Ein Mann <x/><y/> rennt."),
        ("A man <x/> <y/> runs.", "Ein Mann rennt.", "Ein Mann <x/> <y/> rennt."),
        ("A man runs <x/>.", "Ein Mann rennt.", "Ein Mann rennt <x/>."),
        ("A man <x/> runs.", "男人跑。", "男人跑<x/>。"),
        ("A man runs.<sup>1</sup> B is.", "X.", "X.<sup>1</sup> X."),
        ("A man<sup>[2]</sup> runs.", "Ein Mann rennt.", "Ein Mann<sup>[2]</sup> rennt."),
        ("H<sub>2</sub>O is wet.", "HO ist nass.", "H<sub>2</sub>O ist nass."),
    ],
)
def test_what_stands_alone_has_the_spaces_of_the_document_beside_it(
    text: str, translation: str, expected: str
) -> None:
    document = Document.of(text.replace("/>", "></i>"), "en", read=read_html)
    joined = document.join([translation] * len(document.sentences))
    assert joined.replace("></i>", "/>") == expected


def test_an_element_that_moves_is_not_glued_to_words_it_was_not_glued_to() -> None:
    """The words change places, and the end of the sentence comes into its middle."""
    document = Document.of("Heute <x></x> läuft Max <y></y>.", "de", read=read_html)
    links = WordLinks(
        spans_of("Heute läuft Max ."), [(0, 3), (4, 8), (9, 14), (14, 15)], {(0, 2), (1, 1), (2, 0)}
    )
    joined = document.join(["Max runs today."], links=[links])
    assert joined.count("<x></x>") == joined.count("<y></y>") == 1
    assert not re.search(r"\w<|>\w", joined) and not re.search(r"  ", joined)


def test_copied_text_is_found_as_whole_words_and_where_it_is_linked() -> None:
    def copied(text: str, translation: str, links: set[tuple[int, int]]) -> str:
        document = Document.of(text, "de", read=read_html)
        spans = spans_of(document.sentences[0]), spans_of(translation)
        return document.join([translation], links=[WordLinks(*spans, links)])

    text = "Frauen drücken <kbd>a</kbd> oft."
    assert copied(text, "A famous press a is often.", {(2, 3)}) == (
        "A famous press <kbd>a</kbd> is often."
    )
    # Of two the one that is linked.
    assert copied(text, "In a house women press a often.", {(2, 5)}) == (
        "In a house women press <kbd>a</kbd> often."
    )
    # No word is cut, and the copy is there once.
    inside = copied(text, "Frauen press often.", {(0, 0), (1, 1), (3, 2)})
    assert inside.count("<kbd>a</kbd>") == 1 and inside.startswith("Frauen ")
    assert re.sub("<kbd>a</kbd> ?", "", inside) == "Frauen press often."
    # Scripts without spaces have words that end anywhere.
    assert copied(text, "女性常按a键。", {(2, 0)}) == "女性常按<kbd>a</kbd>键。"


@pytest.mark.parametrize("read", [read_html, XMLReader(copied={"code"}, outline=False)])
def test_an_attribute_may_contain_the_end_of_a_tag(read: Reader) -> None:
    code = '<code title="a > b"><i lang="c>d">x</i> &lt; y</code>'
    document = Document.of(f"Ein {code} ist da", "de", read=read)
    assert document.sentences == ["Ein x < y ist da"] and document.copies(0) == ["x < y"]
    assert document.join(["There is x < y"]) == f"There is {code}"


@pytest.mark.parametrize(
    ("text", "sentences", "copies"),
    [
        ("Das <b class='a notranslate b'>Ex</b> da", ["Das Ex da"], ["Ex"]),
        ("Das <b TRANSLATE='NO'>Ex</b> da", ["Das Ex da"], ["Ex"]),
        ("Das <b class='notranslated'>und</b> da", ["Das und da"], []),
        ("<p translate=no>Ex <i translate=yes>Das da</i> Ex</p>Und", ["Das da", "Und"], []),
        ("Und <b translate=no>Ex <i translate=''>Das</i> Ex</b> da", ["Und", "Das", "da"], []),
        ("<div class=notranslate>Ex<div>Ex</div>Ex</div>Das", ["Das"], []),
        ("<svg translate=yes><text>Ex</text></svg> Das", ["Das"], []),
        ("Ein <ruby>Hund<rp>(</rp><rt>hunt</rt><rp>)</rp></ruby> da", ["Ein Hund da"], []),
        ("<ruby>Hund<rt>hunt<rt>hunt</ruby> da", ["Hund da"], []),
        ("Ein Hund<sup><a href=b>[1]</a>, 2</sup> da", ["Ein Hund da"], []),
        ("Am 1<sup>er</sup> da, Windows<sup>TM</sup>", ["Am 1er da, Windows"], []),
    ],
)
def test_what_is_not_translated_or_no_part_of_a_word(
    text: str, sentences: list[str], copies: list[str]
) -> None:
    document = Document.of(text, "de", read=read_html)
    assert document.sentences == sentences and (document.copies(0) or []) == copies
    assert document.join(document.sentences) == text
    joined = document.join([each.upper() for each in document.sentences])
    assert TAG.findall(joined) == TAG.findall(text) and joined.count("Ex") == text.count("Ex")


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("<nav><a href=1>Der Hund</a><a href=2>Das Kind</a></nav>", ["Der Hund", "Das Kind"]),
        ("<button>Hund</button><button><svg>x</svg>Kind</button>", ["Hund", "Kind"]),
        ("<label>Hund<input></label><label>Kind<input></label>", ["Hund", "Kind"]),
        ("<a><b>Der Bär.</b></a><!-- --><a><b>&Ouml;l</b></a>", ["Der Bär.", "Öl"]),
        ("<x-a><a>Seite 1</a></x-a><x-a><a>Seite 2</a></x-a>", ["Seite 1", "Seite 2"]),
        ("Ein Gar<b>ten</b>, <b>Gar</b><i>ten</i>, <a>Hund</a>e", ["Ein Garten, Garten, Hunde"]),
        ("Ein Hund<a>1</a><a>2</a> und <a>[x]</a><a>[y]</a>", ["Ein Hund12 und [x][y]"]),
        ("Ein <a>Hund</a> <a>b</a><br><a>c</a>", ["Ein Hund b c"]),
    ],
)
def test_entries_side_by_side_are_sentences_and_parts_of_a_word_are_not(
    text: str, sentences: list[str]
) -> None:
    document = Document.of(text, "de", read=read_html)
    assert document.sentences == sentences
    assert document.join(sentences) == text
    if len(sentences) > 1:  # each stands where it stood
        translated = document.join([each.upper() for each in sentences])
        for sentence in sentences:
            text = text.replace(sentence, sentence.upper())
        assert translated == text.replace("&Ouml;l", "ÖL")
