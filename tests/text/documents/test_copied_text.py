"""What is not language is copied: numbers, codes, addresses, placeholders of all dialects."""

import re
from collections import Counter

import pytest

from seq2seq.text.documents.document import Document
from seq2seq.text.documents.html_markup import read_html
from seq2seq.text.documents.placeholders import DIALECTS, MAX_NESTED, find_placeholders, is_language

# Texts with their placeholders in brackets.
MARKED = """
c-format: ⟦%s⟧ ⟦%u⟧ ⟦%ld⟧ ⟦%llu⟧ ⟦%zu⟧ ⟦%.2f⟧ ⟦%-5d⟧ ⟦%+d⟧ ⟦%05d⟧ ⟦%*d⟧ ⟦%.*s⟧
units: ⟦%d⟧px, ⟦%d⟧s, ⟦%.1f⟧MB, ⟦%1$s⟧es, (⟦%s⟧), "⟦%s⟧": ⟦%s⟧/⟦%s⟧, ⟦%s⟧⟦%d⟧
objc-format: ⟦%@⟧ hat ⟦%1$@⟧ und ⟦%2$@⟧. strftime: ⟦%Y⟧-⟦%m⟧-⟦%d⟧ ⟦%H⟧:⟦%M⟧
php-format: ⟦%1$s⟧ ⟦%2$d⟧ ⟦%1$.2f⟧ ⟦$name⟧ ⟦$1⟧
python-format: ⟦%(name)s⟧ ⟦%(total).2f⟧ ⟦{}⟧ ⟦{0}⟧ ⟦{name}⟧ ⟦{name!r:>10}⟧ ⟦{a.b}⟧
Python: ⟦{x[0]}⟧ ⟦{:.2f}⟧
ruby, JavaScript, Fluent: ⟦%{name}⟧ ⟦${name}⟧ ⟦#{name}⟧ ⟦{ $count }⟧ ⟦{ -brand }⟧
qt, KDE, Boost: ⟦%1⟧ ⟦%2⟧, ⟦%L1⟧ ⟦%n⟧ ⟦%1%⟧ ⟦%1⟧⟦%2⟧
Vue, Angular, Handlebars: ⟦{{ name }}⟧ ⟦{{name}}⟧ ⟦{{{html}}}⟧
filters: ⟦{{ x | date:'short' }}⟧ ⟦{% if x %}⟧
ERB: ⟦<%= name %>⟧. i18next: ⟦$t(key)⟧ ⟦<0>⟧Hund⟦</0>⟧ ⟦<1/>⟧ ⟦<br/>⟧ ⟦<a href="x y">⟧
Laravel, SQL: ⟦:name⟧ (⟦:count⟧) ⟦:Name⟧.
Symfony, Windows: ⟦%count%⟧ ⟦%USERNAME%⟧ ⟦%user.name%⟧
ICU: ⟦{0, number}⟧ ⟦{when, date, short}⟧ ⟦{n, plural, one {# Hund} other {# Hunde}}⟧
Angular: ⟦{VAR_PLURAL, plural, =0 {kein} =1 {ein Hund} other {viele {{x}} Hunde}}⟧
nested: ⟦{g, select, male {er {n, plural, one {#} other {##}}} other {sie}}⟧ und ⟦{n}⟧
escaped: 100 ⟦%%⟧, ⟦&name;⟧ und ⟦&#160;⟧, ⟦:smile:⟧
Xcode: ⟦%#@files@⟧ ⟦%1$#@x@⟧ und ⟦%#@a_b@⟧. grouped, Windows: ⟦%'d⟧ ⟦%'.2f⟧ ⟦%I64d⟧ ⟦%I64u⟧
Ruby, Go: ⟦%<x>d⟧ ⟦%<total>.2f⟧ ⟦%[1]d⟧ ⟦%2$*1$d⟧
Python, shell, Make: ⟦__name__⟧ ⟦__MAX_COUNT__⟧ ⟦$(VAR)⟧ ⟦$(name)⟧
AngularJS, Jinja: ⟦[[name]]⟧ ⟦[[ user.name ]]⟧ ⟦{# ein Kommentar #}⟧
Drupal, accounts: Hallo ⟦@name⟧ (⟦%name⟧), ⟦@user_name⟧.
addresses: ⟦https://a.de/b?c=%20d⟧, ⟦www.a.de/b⟧, ⟦a.b+c@example.co.uk⟧ und ⟦ftp://a.b/c⟧.
""".strip().split("\n")


def without_brackets(text: str) -> str:
    return re.sub("[⟦⟧]", "", text)


@pytest.mark.parametrize("line", MARKED, ids=lambda line: line.partition(":")[0])
def test_placeholders_of_every_dialect_are_found(line: str) -> None:
    assert find_placeholders(without_brackets(line)) == Counter(re.findall("⟦(.*?)⟧", line))


@pytest.mark.parametrize(
    "text",
    [
        *("50 % sind da.", "50% der Hunde, 100%ig, 20%a", "az emberek 10%-e, 5%-a, 50%-os"),
        "%50 az",
        *("um 10:30 Uhr, 4:3", "Hinweis:nein", "Ende: ja :) :-D ;-)", "a::b", "注意:name です"),
        *("$100 und $1,50 und $3k", "5 < 6 und 7 > 3", "{zwei Wörter}", "{rot, blau}"),
        "Tom & Jerry;",
        *("__Wichtig__ ist", "ab__cd__ef", "$(100)", "Siehe [[Haus]]", "[[Der Hund schläft]]"),
        *("Treffen @ Berlin", "Kolleg@innen", "100 %name", "(20)%ige", "wie 50%'s"),
        *("AT&T", "100 % sicher", "3 %ige Lösung", "ein @ Zeichen", "z.B. usw."),
    ],
)
def test_plain_language_has_no_placeholders(text: str) -> None:
    assert not find_placeholders(text)


def test_messages_are_whole_however_deep_they_are_up_to_the_limit() -> None:
    for depth in (1, 2, MAX_NESTED):
        message = "{n, plural, other " + "{a " * depth + "}" * depth + "}"
        assert find_placeholders(f"x {message} y") == {message: 1}
    assert not find_placeholders("{n, plural, one {ein Hund")


def test_each_dialect_is_met_in_this_test() -> None:
    text = without_brackets("\n".join(MARKED))
    for name, pattern in DIALECTS.items():
        assert re.search(pattern, text), name


COPIED = [
    *("2019", "12.5", "3,50", "2026-11-28", "28.11.2026", "10:30", "+49 30 1234567", "€ 99.00"),
    *("50 %", "50\u00a0%", "1/2", "½", "—", "٢٠١٩", "１２", "[1]", "(3)", "1.", "- 5"),
    "1.234.567,89",
    *("https://example.org/a?b=c", "mail@example.org", "www.example.org", "example.org/a"),
    *("A-17/3", "A4", "v2.0.1", "#42", "5G", "COVID-19", "ISO9001", "MP3", "utf-8", "x86_64"),
    "XK-200b",
    *("2026-11-28T10:30:00Z", "1.0.0-beta.2", "report-2024-final.pdf", "10kg", "12h30", "Ту-154"),
    *("3fa85f64-5717-4562-abcd-2c963f66afa6", "deadbee1", "A4 / A5", "(A4)", "192.168.0.1"),
    "fe80::1",
    *("aB3" * 90, "1" * 2000 + "zz", "9f-" * 100 + "Zug", "--A4--"),
    *("%s", "{0}: {1}", "%d %%", "<b>", "{{ name }}", "{n, plural, one {# Hund} other {# Hunde}}"),
    "Du hast {n, plural, one {# Hund} other {# Hunde}}.",
]
TRANSLATED = [
    *("A", "Hund", "OK", "5 Hunde", "12 Uhr", "Top 10", "A4 und A5", "%s Hunde", "x = 5", "日本"),
    *("3rd", "20th", "1er", "2e", "1990er", "80s", "1º", "1-й", "20-летний", "8jährig", "3fach"),
    *(
        "第3条",
        "3月5日",
        "3-Zimmer-Wohnung",
        "20-year-old",
        "3D-Druck",
        "A4-Papier",
        "Top-10-Liste",
    ),
    *("Hund" + "。)" * 2000 + "a", "a" + "-" * 2000),
    *("{name} schläft", "Siehe www.example.org", "Hinweis:nein", "v2 ist da", "Nein!A4 {0}"),
]


@pytest.mark.parametrize(
    ("texts", "expected"), [(COPIED, False), (TRANSLATED, True)], ids=["copied", "translated"]
)
def test_what_is_not_language_is_copied(texts: list[str], expected: bool) -> None:
    assert [text for text in texts if is_language(text) != expected] == []
    # In a document too: alone, beside sentences, in a cell of a table.
    for text in texts:
        for read in (None, read_html) if not set(text) & set("<&") else (None,):
            lines = Document.of(f"Ein Hund.\n{text}", "de", read=read, split="lines")
            assert (len(lines.sentences) > 1) == expected, text
            assert lines.join([each.upper() for each in lines.sentences])[:9] == "EIN HUND."
    cells = "".join(f"<td>{text.replace('<', '&lt;')}</td>" for text in texts)
    document = Document.of(f"<table><tr>{cells}</tr></table>", "de", read=read_html)
    assert (len(document.sentences) >= len(texts)) if expected else not document.sentences


def test_a_message_with_line_breaks_and_sentences_in_it_is_left_alone() -> None:
    message = "{n, plural,\n  one {Ein Hund. Er bellt.}\n  other {# Hunde. Sie bellen.}\n}"
    document = Document.of(f"Ein Hund.\n{message}\nEine Katze.", "de")
    assert document.sentences == ["Ein Hund.", "Eine Katze."]
    assert document.join(["A", "B"]) == f"A\n{message}\nB"


def test_a_number_between_sentences_stays_where_it_is() -> None:
    document = Document.of("Ein Hund bellt. 2019. Er schläft.", "de")
    assert document.join([each.upper() for each in document.sentences]) == (
        "EIN HUND BELLT. 2019. ER SCHLÄFT."
    )


def test_soft_hyphens_are_hidden_and_come_back_with_what_is_not_translated() -> None:
    plain = "Die Köni\u00adginnen spie\u00adlen."
    marked = "<p>Die Köni&shy;ginnen <b>spie<wbr>len</b>.</p>"
    for text, read in ((plain, None), (marked, read_html)):
        document = Document.of(text, "de", read=read)
        assert document.sentences == ["Die Königinnen spielen."]
        assert document.join(document.sentences) == text
        assert "\u00ad" not in document.join(["The queens play."])


@pytest.mark.parametrize(
    ("text", "sentence", "expected"),
    [
        ("♪ Das Kind singt ♪", "Das Kind singt", "♪ X. ♪"),
        ("☐ Der Hund schläft.", "Der Hund schläft.", "☐ X."),
        ("⚠️ Der Hund schläft.", "Der Hund schläft.", "⚠️ X."),
        ("\u2067Der Hund schläft.\u2069", "Der Hund schläft.", "\u2067X.\u2069"),
        ("Der Hund \ue001 schläft.", "Der Hund \ue001 schläft.", "X."),
        ("[Tür knallt]", "Tür knallt", "[X.]"),
        ("(lacht)", "lacht", "(X.)"),
        ("- [ ] Der Hund", "Der Hund", "- [ ] X."),
        ("... und dann", "und dann", "... X."),
        ("Er ging...", "Er ging...", "X..."),
        ("Er ging …", "Er ging …", "X …"),
        ("Er ging.", "Er ging.", "X."),
        ("Hallo (Welt)", "Hallo (Welt)", "X."),
    ],
)
def test_marks_at_the_ends_of_a_line_stay(text: str, sentence: str, expected: str) -> None:
    document = Document.of(text, "de")
    assert document.sentences == [sentence]
    assert document.join(["X."]) == expected


def test_a_word_that_is_longer_than_the_library_may_read_is_not_cut() -> None:
    text = f"Ein Hund {'x' * 20_000} bellt."
    assert any("x" * 20_000 in each for each in Document.of(text, "de").sentences)


@pytest.mark.parametrize(
    "placeholder",
    [
        *("<%= name %>", "<% if a > 3 && b < 2 %>", "<%= '<b>' %>", "{{ $user->name }}"),
        *("{% if a < 3 %}", "{{ a && b }}", "<?php echo $a->b; ?>", "<?= $a > 3 ?>"),
        *("&lt;%= name %&gt;", "{{ a &amp;&amp; b }}", "{{ a\n&& b }}"),
    ],
)
def test_templates_in_html_stay_byte_for_byte(placeholder: str) -> None:
    for text in (
        f"<p>Der Hund {placeholder} bellt &amp; <b>läuft</b>.</p>",
        f"<p title='{placeholder}'>Der Hund {placeholder} bellt &amp; läuft.</p>",
        f"<ul>{placeholder}<li>Der Hund bellt</li>{placeholder}</ul>",
    ):
        document = Document.of(text, "de", read=read_html)
        (sentence,) = document.sentences
        shown = sentence.replace("bellt", "barks")
        normal = placeholder.replace("\n", " ") if "<p" in text else placeholder
        written = document.join([shown]).replace("barks", "bellt")
        assert written in (text, text.replace(f"Hund {placeholder}", f"Hund {normal}"))


def test_php_without_an_end_hides_the_rest() -> None:
    text = "<p>Der Hund bellt.</p><?php echo '<p>Ein Kind</p>';"
    document = Document.of(text, "de", read=read_html)
    assert document.sentences == ["Der Hund bellt."] and document.join(["x"]) == (
        text.replace("Der Hund bellt.", "x")
    )
    for short in ("<?=", "<?=a", "<?php", "<?=?>"):
        assert Document.of(f"<p>Hund</p>{short}", "de", read=read_html).join(["x"]) == (
            f"<p>x</p>{short}"
        )
