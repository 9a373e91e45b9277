import pytest

from seq2seq.pages.labels import (
    DEFAULT,
    choose_fonts,
    missing_font_advice,
)

UNDRAWABLE = "\U00017000"  # Tangut is in few fonts


def test_latin_greek_and_cyrillic_need_the_default_font_only():
    assert choose_fonts("Größe λόγος слово\n\t") == ([DEFAULT], [])


def test_no_text_needs_no_other_font():
    assert choose_fonts("") == ([DEFAULT], [])


def test_the_font_that_claims_every_character_is_never_chosen():
    families, missing = choose_fonts(UNDRAWABLE)
    if not missing:
        pytest.skip("a font of this machine really has the character")
    assert missing == [UNDRAWABLE]
    assert families == [DEFAULT]


def test_chinese_is_either_drawn_by_another_font_or_reported():
    families, missing = choose_fonts("a我")
    assert missing == ["我"] if families == [DEFAULT] else missing == []


@pytest.mark.parametrize(
    ("character", "package"),
    [
        ("我", "fonts-noto-cjk"),
        ("ひ", "fonts-noto-cjk"),
        ("한", "fonts-noto-cjk"),
        ("،", "fonts-noto-core"),
        ("न", "fonts-noto-core"),
        ("🦖", "fonts-symbola"),
    ],
)
def test_advice_names_the_character_and_the_package(character, package):
    text = missing_font_advice([character])
    assert f"{character} (U+{ord(character):04X})" in text
    assert text.endswith(f"apt install {package}")


def test_advice_names_ten_characters_and_counts_the_rest():
    text = missing_font_advice([chr(0x4E00 + i) for i in range(13)])
    assert text.count("(U+") == 10 and "and 3 more" in text
