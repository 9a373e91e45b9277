import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seq2seq.text.tokenization.splitting import split_into_parts
from seq2seq.text.tokenization.tokenizer import Tokenizer

texts = st.text(st.sampled_from('aelhund .!?"»\n\u3000 ß中文。！👋\u0301\u2028'), max_size=60)


def pieces_of(part: str, tokenizer: Tokenizer) -> int:
    return len(tokenizer.encode_batch([part])[0])


@given(texts, st.integers(1, 12))
@example("a" * 50, 1)
@example(" " * 50, 3)
@example("中" * 20, 1)
@example("x中" * 20, 2)
def test_no_character_is_lost_and_no_part_is_empty(
    tokenizer: Tokenizer, text: str, max_pieces: int
) -> None:
    parts = split_into_parts(text, tokenizer, max_pieces)
    assert "".join(parts) == text
    assert all(parts) == bool(text)


@given(texts, st.integers(1, 12))
@example("x中" * 20, 2)
def test_no_part_has_more_pieces_of_the_text_than_allowed_unless_it_is_one_character(
    tokenizer: Tokenizer, text: str, max_pieces: int
) -> None:
    ends = [end for _, end in tokenizer.spans(text)]
    start = 0
    for part in split_into_parts(text, tokenizer, max_pieces):
        inside = [end for end in ends if start < end <= start + len(part)]
        # What ends at one character has four bytes at max_pieces, so four pieces.
        assert len(inside) <= max_pieces or (len(inside) <= 4 and len(set(inside)) == 1)
        start += len(part)


def test_a_text_that_fits_stays_whole(tokenizer: Tokenizer) -> None:
    text = "ein hund läuft. die katze schläft."
    assert split_into_parts(text, tokenizer, pieces_of(text, tokenizer)) == [text]
    assert split_into_parts("", tokenizer, 5) == [""]


def test_a_part_ends_after_the_last_sentence_end_in_reach(tokenizer: Tokenizer) -> None:
    first, second, third = "ein hund läuft. ", 'die katze "schläft!" ', "der hund sieht die katze"
    max_pieces = pieces_of(first + second + "der hund sieht", tokenizer)
    assert split_into_parts(first + second + third, tokenizer, max_pieces) == [
        first + second,
        third,
    ]


def test_without_a_sentence_end_a_part_ends_after_a_space(tokenizer: Tokenizer) -> None:
    text = "der hund sieht die katze"
    max_pieces = pieces_of("der hund sieht di", tokenizer)
    assert split_into_parts(text, tokenizer, max_pieces)[0] == "der hund sieht "


def test_a_decimal_point_is_no_sentence_end(tokenizer: Tokenizer) -> None:
    max_pieces = pieces_of("der hund kostet 3.50", tokenizer)
    assert (
        split_into_parts("der hund kostet 3.50 mark", tokenizer, max_pieces)[0]
        == "der hund kostet "
    )


def test_full_width_marks_end_a_sentence_without_a_space(tokenizer: Tokenizer) -> None:
    max_pieces = pieces_of("你好。”世界！中", tokenizer)
    assert split_into_parts("你好。”世界！中文", tokenizer, max_pieces) == ["你好。”世界！", "中文"]


def test_a_word_too_long_for_any_part_is_cut_between_pieces(tokenizer: Tokenizer) -> None:
    parts = split_into_parts("ja " + "x" * 25, tokenizer, 10)
    assert parts == ["ja ", "x" * 10, "x" * 10, "x" * 5]


def test_a_character_is_never_cut(tokenizer: Tokenizer) -> None:
    assert split_into_parts("中文", tokenizer, 1) == ["中", "文"]
    assert split_into_parts("x中y", tokenizer, 2) == ["x", "中", "y"]


def test_a_part_needs_room_for_a_piece(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="at least one piece, not 0"):
        split_into_parts("ein hund", tokenizer, 0)
