"""The rules for clean pairs, one by one and in their order."""

import random
import unicodedata
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.cleaning.rules import (
    INVALID,
    RULES,
    TextPair,
    find_numbers,
    first_broken,
    have_other_numbers,
    length_ratio,
    share_of_copies,
    share_of_scripts,
)
from seq2seq.text.languages import scripts_of

LIMITS = {name: rule.default for name, rule in RULES.items() if rule.default != "off"}
GOOD = ("Ein Hund läuft am 3. Mai 2010.", "A dog runs on May 3, 2010.")


def broken(source: str, target: str, languages: tuple[str, str] = ("de", "en")) -> str | None:
    return first_broken(TextPair((source, target), languages), LIMITS)


@pytest.mark.parametrize(
    ("rule", "source", "target"),
    [
        (None, *GOOD),
        (None, "Das kostet 1.000,50 Euro.", "It costs 1,000.50 euros."),
        (None, "Zwei Hunde.", "2 dogs."),
        (None, "Am 31.12.2010, ٣٠ Leute", "On 12/31/2010, 30 people"),
        (None, "Siehe https://a.de/x?y.", "Look at https://a.de/x?y now."),
        (None, "Hallo {name}, %s!", "%s, hello {name}!"),
        ("min_words", "", "A dog."),
        ("min_words", "Ein Hund.", "\u3000 "),
        ("max_words", "a " * 201, "b " * 201),
        (
            "max_characters",
            "Donaudampfschifffahrtsgesell " * 60,
            "Danube-steam-shipping-company " * 60,
        ),
        ("max_ratio", "Ja.", "Yes, that is what I think."),
        ("max_word_length", "a" * 51, "A dog."),
        ("invalid", "Ein Hund\x92s Leben", "A dog's life"),
        ("invalid", "Ein H\ufffdnd", "A dog"),
        ("invalid", "Ein\x00Hund", "A dog"),
        ("invalid", "Ein\tHund", "A dog"),
        ("copies", "Angela  Merkel", "Angela Merkel"),
        ("max_copied", "Angela Merkel!", "ANGELA MERKEL"),
        ("min_script", "Собака бежит", "A dog runs"),
        ("numbers", "Im Jahr 2010", "In the year 2011"),
        ("numbers", "13 Hunde, 5 Katzen", "Some dogs, 5 cats"),
        (None, "Sie ist dreißig Jahre alt.", "She is 30 years old."),
        ("placeholders", "Hallo {name}!", "Hello {nom}!"),
        ("placeholders", "Ein <b>Hund</b>.", "A <b>dog."),
        ("placeholders", "Siehe https://a.de/x.", "Look at https://a.de/y."),
    ],
)
def test_a_pair_breaks_the_expected_rule(rule: str | None, source: str, target: str) -> None:
    assert broken(source, target) == broken(target, source, ("en", "de")) == rule


def test_a_rule_that_is_off_is_never_broken() -> None:
    for name in LIMITS:
        others = {other: limit for other, limit in LIMITS.items() if other == name}
        assert first_broken(TextPair(GOOD, ("de", "en")), others) is None
    assert first_broken(TextPair(("", "\x00"), ("de", "en")), {}) is None


def test_words_are_characters_in_languages_without_spaces() -> None:
    assert (
        broken(
            "大学在20年前由他的父亲建立。",
            "His father founded the university 20 years ago.",
            ("zh", "en"),
        )
        is None
    )
    assert broken("犬" * 201, "dogs " * 150, ("ja", "en")) == "max_words"


@pytest.mark.parametrize(
    ("languages", "source", "target", "ratio"),
    [
        (("zh-Hans", "en"), "难以置信啊！", "Incredible!", 18 / 11),
        (("en", "ja"), "It broke.", "壊れてしまったそうです。", 36 / 8),
        (("th", "en"), "สวัสดี ครับ", "Good day", 10 / 7),
        (("zh", "ja"), "汉字", "漢字です", 2.0),
        (("de", "en"), "Donaudampfschifffahrt", "A trip by steamer", 4.0),
    ],
)
def test_lengths_are_compared_in_letters_if_a_language_has_no_spaces(
    languages: tuple[str, str], source: str, target: str, ratio: float
) -> None:
    assert length_ratio(TextPair((source, target), languages)) == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("language", "text", "share"),
    [
        ("de", "Straße, 3 Äpfel!", 1.0),
        ("ru", "abв", 1 / 3),
        ("ja", "カタカナとひらがな漢字ー", 1.0),
        ("ko", "한국어", 1.0),
        ("el", "123 %", 1.0),
        ("sr", "абc", 1.0),
        ("letters", "абc", 1.0),
        ("de", "\U0001e6c0", 0.0),  # a letter since Unicode 17
    ],
)
def test_letters_are_of_the_scripts_of_the_language(language: str, text: str, share: float) -> None:
    assert share_of_scripts(text, scripts_of(language)) == pytest.approx(share)


@given(st.lists(st.integers(13, 10**15), max_size=4), st.randoms())
def test_numbers_are_found_in_any_order_and_writing(
    numbers: list[int], draw: random.Random
) -> None:
    english = " and ".join(f"{n:,}" for n in numbers)
    draw.shuffle(numbers)
    german = " und ".join(f"{n:,}".replace(",", ".") for n in numbers)
    plain = " x ".join(map(str, numbers))
    assert find_numbers(english) == find_numbers(german) == find_numbers(plain)
    assert len(find_numbers(plain)) == len(numbers)


def test_numbers_that_python_refuses_to_parse_are_compared() -> None:
    assert find_numbers("9" * 10_000) == [Decimal("9" * 10_000)]
    assert have_other_numbers(TextPair(("9" * 60 + "8", "9" * 61), ("de", "en")))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,00,000", "100,000"),
        ("12,34,567", "1.234.567"),
        ("1,00,00,000", "10000000"),
        ("१,००,०००", "1 00 000".replace(" ", "")),
        ("१५०", "150"),
        ("٣٠٬٠٠٠", "30,000"),
        ("٣٫٥٠ و ١٤", "3.5 and 14"),
        ("１２，３４５", "12,345"),
        ("1'234'567.80", "1,234,567.8"),
        ("1 234,50", "1.234,5"),
        ("1\u202f234\u202f567", "1,234,567"),
        ("12,50", "12.5"),
        ("99,00", "99"),
        ("0,125", "0.125"),
        ("15,25", "15.25"),
        ("31.12.2010", "12/31/2010"),
        ("10.30 Uhr", "10:30"),
        ("3.5万", "35,000"),
        ("1兆", "1,000,000,000,000"),
        ("10 만", "100,000"),
        ("1.2億", "120,000,000"),
        ("192.168.20.1", "192.168.20.1"),
        ("12", "twelve"),
    ],
)
def test_numbers_of_one_value_are_equal(one: str, other: str) -> None:
    assert not have_other_numbers(TextPair((one, other), ("xx", "xx")))
    assert not have_other_numbers(TextPair((f"a {other}, b", f"c {one}. D"), ("xx", "xx")))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,00,000", "10,000"),
        ("1,00,000", "1,000,000"),
        ("१,००,०००", "10,000"),
        ("100", "1000"),
        ("15.5", "16.5"),
        ("1.25", "1.75"),
        ("12.50", "1250"),
        ("10万", "10,000"),
        ("2010 und 2011", "2010 and 2012"),
        ("20", "20 20"),
        ("31.12.2010", "12/30/2010"),
        ("1.234,5", "1,234.6 or 13"),
    ],
)
def test_numbers_of_other_values_differ(one: str, other: str) -> None:
    assert have_other_numbers(TextPair((one, other), ("xx", "xx")))
    assert have_other_numbers(TextPair((other, one), ("xx", "xx")))


KEPT = [
    ("Ez dixwazim pirtûkan bibînim.", "ku"),
    ("Ev pirtûk pir xweş e.", "kmr_Latn"),
    ("من دەمەوێت کتێبەکان ببینم.", "ckb_Arab"),
    ("Мен китобларни кўришни хоҳлайман.", "uz"),
    ("Men kitoblarni koʻrishni xohlayman.", "uz"),
    ("Мен китобларни кўришни хоҳлайман.", "uzn_Cyrl"),
    ("Mən kitabları görmək istəyirəm.", "az"),
    ("Мән китаблары ҝөрмәк истәјирәм.", "az"),
    ("Men kitaptardy kórgim keledi.", "kk"),
    ("Мен кітаптарды көргім келеді.", "kaz_Cyrl"),
    ("Želim da vidim knjige.", "sr"),
    ("Желим да видим књиге.", "srp"),
    ("Би ном үзмээр байна.", "mn"),
    ("ང་དཔེ་ཆ་ལྟ་འདོད།", "bo"),
    ("ང་རང་གི་མིང་ལ་བཀྲ་ཤིས་ཟེར། ང་རང་ལྷ་ས་ནས་ཡིན། ཁྱེད་རང་ག་ནས་ཡིན་ནམ། ང་ལ་དཔེ་ཆ་མང་པོ་ཡོད།", "bod_Tibt"),
    ("ผมอยากเห็นหนังสือเหล่านั้น", "tha"),
    ("ខ្ញុំចង់ឃើញសៀវភៅ", "khm_Khmr"),
    ("ຂ້ອຍຢາກເຫັນປຶ້ມ", "lo"),
    ("စာအုပ်တွေကို ကြည့်ချင်ပါတယ်", "mya"),
    ("我想看那些书。", "zho_Hans"),
    ("我想睇嗰啲書。", "yue"),
    ("その本を見たいです。", "jpn_Jpan"),
    ("나는 그 책을 보고 싶다.", "kor_Hang"),
    ("ਮੈਂ ਕਿਤਾਬਾਂ ਦੇਖਣਾ ਚਾਹੁੰਦਾ ਹਾਂ।", "pan_Guru"),
    ("میں کتابیں دیکھنا چاہتا ہوں۔", "urd"),
    ("Saya ingin melihat buku itu.", "zsm_Latn"),
    ("ⵔⵉⵖ ⴰⴷ ⵥⵔⵖ ⵉⴷⵍⵉⵙⵏ.", "zgh"),
    ("Θέλω να δω τα βιβλία.", "ell_Grek"),
]


@pytest.mark.parametrize(("text", "language"), KEPT)
def test_good_pairs_stay_in_each_script_of_a_language(text: str, language: str) -> None:
    english = "I want to see the books."
    if len(text) > 50:  # of four sentences
        english = "My name is Tashi. I come from Lhasa. Where do you come from? I have many books."
    assert broken(text, english, (language, "eng_Latn")) is None
    assert share_of_scripts(text, scripts_of(language)) == 1
    assert share_of_scripts("Ես ուզում եմ տեսնել գրքերը։", scripts_of(language)) == 0


def test_sentences_without_spaces_are_measured_like_others() -> None:
    thai, english = "ผมอยากเห็นหนังสือเหล่านั้น" * 20, "I want to see the books. " * 20
    assert broken(thai, english, ("th", "en")) is None
    assert broken(thai * 2, english, ("th", "en")) == "max_words"


@given(st.lists(st.sampled_from("abcd"), max_size=6), st.lists(st.sampled_from("abcd"), max_size=6))
def test_the_copied_share_is_counted_word_by_word(source: list[str], target: list[str]) -> None:
    left, common = list(target), 0
    for word in source:
        if word in left:
            left.remove(word)
            common += 1
    pair = TextPair((" ".join(source).upper(), ", ".join(target)), ("de", "en"))
    assert share_of_copies(pair) == pytest.approx(common / max(len(source), len(target), 1))


def test_invalid_characters_are_those_of_unicode() -> None:
    categories = {"Cc", "Cs", "Co", "Zl", "Zp"}
    for code in (*range(0x3000), *range(0xD7A0, 0xFB00), *range(0xFFF0, 0x10010)):
        character = chr(code)
        noncharacter = 0xFDD0 <= code <= 0xFDEF or code in (0xFFFE, 0xFFFF)
        expected = unicodedata.category(character) in categories or noncharacter or code == 0xFFFD
        assert bool(INVALID.search(character)) == expected, hex(code)
