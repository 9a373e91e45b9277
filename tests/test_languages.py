"""Language codes."""

import pytest

from seq2seq.languages import SPACELESS, is_spaceless, language_code


@pytest.mark.parametrize("written", ["zh", "ZH", "zh-Hans", "zh_CN", "Zh-hant_TW"])
def test_a_code_is_what_stands_before_script_and_country(written: str) -> None:
    assert language_code(written) == "zh"
    assert is_spaceless(written)


def test_an_unnamed_language_has_no_code_and_has_spaces() -> None:
    assert language_code(None) == language_code("") == ""
    assert not is_spaceless(None)


def test_all_languages_of_the_table_are_spaceless() -> None:
    assert all(is_spaceless(code) for code in SPACELESS)
    assert not any(is_spaceless(code) for code in ("de", "en", "zhx", "jav"))
