"""Language codes, scripts, and white space between words."""

import unicodedata
from itertools import product
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langcodes.data_dicts import LIKELY_SUBTAGS

from seq2seq.text.languages import (
    LONGEST_CODE,
    WORD_LENGTHS,
    is_spaceless,
    language_code,
    letters_outside,
    likeness,
    read_language,
    scripts_of,
    word_length,
)

SAME = {  # each language in the forms of BCP 47, ISO 639, FLORES, NLLB, OPUS, mBART and locales
    "zh": "zh ZH zho chi cmn zh-Hans zho_Hans cmn_Hans zh_CN Zh-hant_TW zh-cmn-Hans zt zh-CHT",
    "de": "de DE deu ger deu_Latn de_DE de-CH-1901 de_DE.UTF-8 de_DE.ISO-8859-1@euro",
    "pt": "pt por por_Latn pt_br pt-PT PT-BR pb",
    "nb": "nb no nor nob nob_Latn nb_NO",
    "ps": "ps pus pbt pbt_Arab",
    "tl": "tl fil tgl tgl_Latn",
    "he": "he iw heb heb_Hebr he_IL",
    "id": "id in ind ind_Latn",
    "sr": "sr srp srp_Cyrl sr-Latn sr@latin sr_RS@latin sr_RS.utf8@latin sh",
    "ku": "ku kur kmr kmr_Latn",
    "ja": "ja jpn jpn_Jpan ja_XX",
    "ko": "ko kor kor_Hang kor_Kore ko-KR",
    "yue": "yue yue_Hant zh-yue yue-HK",
    "ar": "ar ara arb arb_Arab ar_AR",
    "az": "az aze azj_Latn",
    "my": "my bur mya mya_Mymr my_MM",
}


@pytest.mark.parametrize(("code", "forms"), SAME.items())
def test_all_forms_of_a_code_are_one_language(code: str, forms: str) -> None:
    assert {form: language_code(form) for form in forms.split()} == dict.fromkeys(
        forms.split(), code
    )
    assert all(read_language(form).is_known for form in forms.split())


@pytest.mark.parametrize(
    "name",
    [
        *("letters", "phones", "src", "tgt", "trg", "ref", "txt", "xx", "xx_nonsense", "en.tok"),
        *("de-nonsense", "my-src", "0", "auto", "und", "mul", "-", "de-", "zho__Hans"),
    ],
)
def test_names_that_are_no_codes_are_taken_as_they_are(name: str) -> None:
    read = read_language(name)
    assert not read.is_known and read.tag == read.code == name.lower().replace("-", "_")
    assert not is_spaceless(name) and not scripts_of(name)


def test_no_language_and_long_texts_have_no_script() -> None:
    assert language_code(None) == language_code("") == ""
    assert not (is_spaceless(None) or read_language("").is_known)
    assert not read_language("de-" + "a" * LONGEST_CODE).is_known


@given(st.text(max_size=60))
def test_any_text_can_be_asked_for_its_language(text: str) -> None:
    read = read_language(text)
    assert read_language(read.tag).code == read.code or not read.is_known
    scripts_of(text), is_spaceless(text), likeness(text, "de")


@pytest.mark.parametrize(
    ("code", "length"),
    [
        *(
            (code, 1)
            for code in ("zh", "zho_Hant", "cmn", "yue", "wuu", "nan", "jpn", "ja", "ja-Hira")
        ),
        *((code, 4) for code in ("th", "tha_Thai", "km", "lao", "mya", "bod_Tibt", "dz", "shn")),
        *((code, 0) for code in ("de", "ko", "vi", "jav", "zh_Latn", "ja-Latn", "hi", "am")),
    ],
)
def test_the_script_decides_about_spaces(code: str, length: int) -> None:
    assert word_length(code) == length and is_spaceless(code) == bool(length)


@pytest.mark.parametrize(
    ("wanted", "offered", "expected"),
    [
        ("zho_Hans", "zh-Hans", 2),
        ("zh-CN", "zh-Hans", 1),
        ("zh", "zho_Hans", 1),
        ("zh-TW", "zh-Hant", 1),
        ("zh-HK", "zh-TW", 1),
        ("zt", "zh-Hant", 2),
        *(
            (one, other, 0)
            for one in ("zh", "zh-Hans", "zh-CN", "zh_SG", "zho_Hans")
            for other in ("zh-Hant", "zh-TW", "zh_HK", "cmn_Hant")
        ),
        ("pt-BR", "pt_br", 2),
        ("pt-BR", "pt-PT", 1),
        ("pt", "pt-PT", 1),
        ("EN-GB", "eng_Latn", 1),
        ("sr-Latn", "sr", 0),
        ("uz_Cyrl", "uzn_Latn", 0),
        ("nb", "no", 2),
        ("nn", "no", 0),
        ("yue", "zh-Hant", 0),
        ("Letters", "letters", 2),
        ("letters", "de", 0),
        ("kor_Hang", "ko", 2),
        ("ur_Aran", "urd_Arab", 2),
        ("quy", "quy_Latn", 1),  # CLDR does not know its script
        ("", "de", 0),
    ],
)
def test_a_variant_answers_for_its_language_but_not_for_another_script(
    wanted: str, offered: str, expected: int
) -> None:
    assert likeness(wanted, offered) == likeness(offered, wanted) == expected


@pytest.mark.parametrize(
    ("code", "scripts"),
    [
        ("ja", "Hani Hira Kana"),
        ("ko", "Hang Hani"),
        ("de", "Latn"),
        ("ku", "Latn Arab Cyrl"),
        ("kmr_Latn", "Latn"),
        ("sr_RS@ijekavianlatin", "Latn"),
        ("uz@cyrillic", "Cyrl"),
        ("uz", "Latn Cyrl"),
        ("uzn_Cyrl", "Cyrl"),
        ("az", "Latn Cyrl Arab"),
        ("kk", "Cyrl Latn Arab"),
        ("sr", "Cyrl Latn"),
        ("mn", "Cyrl Mong"),
        ("pa", "Guru Arab"),
        ("bo", "Tibt"),
        ("ms", "Latn Arab"),
        ("be", "Cyrl Latn"),
    ],
)
def test_languages_have_all_scripts_they_are_written_in(code: str, scripts: str) -> None:
    assert scripts_of(code) >= set(scripts.split())
    if "_" in code or "@" in code:
        assert scripts_of(code) == {scripts}


def test_each_script_of_a_language_is_one_of_unicode() -> None:
    """The rule of scripts would be off for a language with a script that `regex` does not know."""
    codes = {tag.split("-")[0] for tag in LIKELY_SUBTAGS} - {"und"}
    off = [code for code in codes if letters_outside(scripts_of(code)).pattern == "(?!)"]
    assert not [code for code in off if scripts_of(code)] and len(off) < 20
    assert letters_outside(scripts_of("de_Zsym")).findall("aб") == []


ASSIGNED = st.characters(exclude_categories=("Cs", "Cn"))  # libraries differ in what is newer


@given(st.text(ASSIGNED, max_size=30))
def test_a_letter_is_of_the_script_that_other_tables_say(text: str) -> None:
    tables = pytest.importorskip("fontTools.unicodedata", reason="pip install fonttools")
    foreign = [
        letter
        for letter in text
        if unicodedata.category(letter).startswith("L")
        and tables.script(letter) not in ("Grek", "Zyyy", "Zinh", "Zzzz")
    ]
    assert letters_outside(frozenset({"Grek"})).findall(text) == foreign


def test_short_codes_are_what_the_library_says() -> None:
    codes = ["".join(pair) for pair in product(ascii_lowercase, repeat=2)]
    known = {code: WORD_LENGTHS.get(read_language(code).script, 0) for code in codes}
    assert known == {code: word_length(code) for code in codes}
