"""Tokenizers of other programs: the same pieces, and what is no such file."""

import random
import struct
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.builders import CONF
from helpers.piece_models import field, model_bytes

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.registry import check_options
from seq2seq.base.symbols import NAMES, UNK
from seq2seq.data.options import DataOptions
from seq2seq.data.prepare import prepare
from seq2seq.decoding.constraints.spelling import Spelling
from seq2seq.text.tokenization import piece_model
from seq2seq.text.tokenization import sentencepiece as spm
from seq2seq.text.tokenization.bpe import SubwordNMT
from seq2seq.text.tokenization.registry import build_recipe
from seq2seq.text.tokenization.sentencepiece import SentencePiece
from seq2seq.text.tokenization.tokenizer import Tokenizer

DEMO = CONF.parent / "data" / "demo"
HOSTILE = [
    "",
    " ",
    "   ",
    "\u2581",
    "a\u2581b",
    " a  b \u2581",
    "<s>",
    "</s> <unk> <pad>",
    "<0x41>",
    "\0",
    "a\tb\nc\r\nd",
    "\u2028x\x85y",
    "ｆｕｌｌ　ｗｉｄｔｈ",
    "ﬁ ½ ①",
    "Ma\u0308nner",
    "नमस्ते",
    "👩‍👩‍👧 שלום עולם \u202eabc\u202c",
    "ก็ ที่",
    "a\u200bb\u00a0c\ufeffd",
    "한국어 각",
    "x" * 5000,
    "\u0301 ",
]
# Cut in another way than by SentencePiece: see `spm.build_tokenizer`.
DIFFERENT = ["\ufdd0 \ufdd1", "a" + "\u0301" * 20]


PIECES = {
    "\u2581": -2.0,
    "a": -3.0,
    "b": -3.5,
    "ab": -5.0,
    "\u2581a": -4.0,
    "aba": -7.25,
    "<": -6.0,
}


def built(content: bytes) -> Tokenizer:
    """The tokenizer of the content of a file."""
    return spm.build_tokenizer(piece_model.parse_piece_model(content))


def best_path(text: str) -> list[str]:
    """The pieces with the highest sum of scores, among all cuts of a text."""

    def cuts(rest: str) -> list[list[str]]:
        if not rest:
            return [[]]
        found = []
        for end in range(1, len(rest) + 1):
            if rest[:end] in PIECES:
                found += [[rest[:end], *more] for more in cuts(rest[end:])]
        return found

    return max(cuts("\u2581" + text.replace(" ", "\u2581")), key=lambda c: sum(map(PIECES.get, c)))


@pytest.mark.parametrize("text", ["ab", "a b", "abab ab", "aabb abba", "<a<b", "<a<"])
def test_the_pieces_are_those_of_the_best_path(text: str) -> None:
    tokenizer = built(model_bytes(PIECES))
    [ids] = tokenizer.encode_batch([text])
    assert [tokenizer.symbols()[i].replace("\ufdd0", "<") for i in ids] == best_path(text)
    assert tokenizer.decode_batch([ids]) == [text]
    assert Tokenizer.from_json(tokenizer.to_json()).encode_batch([text]) == [ids]


def test_ids_are_the_four_symbols_and_then_the_pieces_in_order() -> None:
    tokenizer = built(model_bytes(PIECES))
    assert tokenizer.symbols() == [*NAMES, *(piece.replace("<", "\ufdd0") for piece in PIECES)]
    assert tokenizer.encode_batch(["\u4e2d\u4e2d"]) == [[4, UNK]]  # neighbours become one


@pytest.mark.parametrize("name", NAMES)
def test_no_text_produces_a_symbol(name: str) -> None:
    letters = dict.fromkeys("▁</>padsunk", -3.0)
    tokenizer = built(model_bytes(letters))
    [ids] = tokenizer.encode_batch([name])
    assert min(ids) > UNK and tokenizer.decode_batch([ids]) == [name]


def test_pieces_of_the_other_side_are_decoded_and_never_produced() -> None:
    model = piece_model.parse_piece_model(model_bytes(PIECES))
    tokenizer = spm.build_tokenizer(model, [*PIECES, "abab", "\u2581x"])
    [ids] = tokenizer.encode_batch(["abab"])
    assert max(ids) < 4 + len(PIECES)
    last = tokenizer.size - 1
    assert tokenizer.decode_batch([[last, last - 1]]) == ["xabab"]


def test_spaces_are_kept_if_the_model_says_so() -> None:
    keeping = field(4, 0) + field(3, 0)
    tokenizer = built(model_bytes(PIECES, keeping))
    for text in ("a  b ", " a", "  "):
        assert tokenizer.decode_batch(tokenizer.encode_batch([text])) == [text]
    plain = built(model_bytes(PIECES))
    assert plain.decode_batch(plain.encode_batch(["  a   b  "])) == ["a b"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it has no pieces"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "announces 9,223,372,036,854,775,807 bytes"),
        (b"\xff" * 20, "number that does not end"),
        (b"PK\x03\x04 a zip", "."),
        (model_bytes({"a": 1.0}) + field(1, field(1, b"a")), "two of its pieces are the same"),
        (model_bytes({"a": float("nan")}), "the score nan"),
        (model_bytes({"a" * 1001: 1.0}), "1,001 characters"),
        (model_bytes({"a": 1.0}) + field(1, field(1, b"\xff")), "not UTF-8"),
        (model_bytes({"a": 1.0}, training=field(3, 3)), "its type is 'word'"),
        (model_bytes({"a": 1.0}, training=field(24, 1)), "treat_whitespace_as_suffix"),
        (model_bytes({"a": 1.0}, normal=field(2, 7)), "the number 7 is in the place of a text"),
    ],
)
def test_what_is_no_model_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.model").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.model is not a SentencePiece model") as caught:
        piece_model.read_piece_model(tmp_path / "x.model")
    assert words in str(caught.value)


def test_a_damaged_map_of_characters_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    for charsmap in (b"\x01", b"\xff" * 40, struct.pack("<I", 400) + b"\xff" * 400):
        model = piece_model.parse_piece_model(model_bytes(PIECES, field(2, charsmap)))
        try:
            spm.build_tokenizer(model)
        except DataError as error:
            assert "its normalisation is damaged" in str(error)


def test_damage_anywhere_is_a_message_or_another_model() -> None:
    whole, chance = model_bytes(PIECES), random.Random(1)
    for _ in range(300):
        damaged = bytearray(whole[: chance.randrange(1, len(whole) + 1)])
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            built(bytes(damaged))
        except DataError as error:
            assert str(error)


def demo_lines(count: int) -> list[str]:
    lines = []
    for side in ("de", "en"):
        with (DEMO / f"train.{side}").open(encoding="utf-8") as file:
            lines += [line.rstrip("\n") for line in islice(file, count // 2)]
    return lines


@pytest.fixture(scope="module", params=["unigram", pytest.param("bpe", marks=pytest.mark.slow)])
def trained(request: Any, tmp_path_factory: Any) -> Path:
    trainer = pytest.importorskip("sentencepiece", reason="pip install sentencepiece")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "text").write_text("\n".join(demo_lines(2000)), encoding="utf-8")
    trainer.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "x"),
        model_type=request.param,
        vocab_size=700,
        byte_fallback=request.param == "bpe",
        minloglevel=2,
    )
    return folder / "x.model"


def test_the_pieces_are_those_of_sentencepiece(trained: Path) -> None:
    data = trained.read_bytes()
    tokenizer = built(data)
    assert spm.compare_with_library(tokenizer, data, demo_lines(10_000)) == []
    # Without bytes, both of the first are unknown, and nothing can differ.
    different = DIFFERENT if trained.parent.name.startswith("bpe") else DIFFERENT[1:]
    assert spm.compare_with_library(tokenizer, data, [*HOSTILE, *DIFFERENT]) == different


def test_a_run_takes_a_model_for_each_side(tmp_path: Path) -> None:
    for name, more in (("de", "d"), ("en", "e")):
        (tmp_path / f"{name}.model").write_bytes(model_bytes({**PIECES, more: -1.0}))
        for part in ("train", "valid"):
            (tmp_path / f"{part}.{name}").write_text(f"ab{more} a\nb\n")
    data = DataOptions(
        name="x",
        source="de",
        target="en",
        train=str(tmp_path / "train"),
        valid=str(tmp_path / "valid"),
        cache=str(tmp_path / "cache"),
    )
    paths = [str(tmp_path / f"{name}.model") for name in ("de", "en")]
    both = prepare(data, {"name": "sentencepiece", "path": paths}).tokenizers
    assert [each.symbols()[-1] for each in both] == ["d", "e"]
    one = prepare(data, {"name": "sentencepiece", "path": paths[0]}).tokenizers
    assert one.source is one.target and one.source.symbols()[-1] == "d"
    (tmp_path / "de.model").write_bytes(model_bytes({**PIECES, "f": -1.0}))  # the same name
    changed = prepare(data, {"name": "sentencepiece", "path": paths[0]}).tokenizers
    assert changed.source.symbols()[-1] == "f"


def test_options_of_a_learnt_tokenizer_mean_nothing_here() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer.vocab_size=9 means nothing here: the file"):
        check_options(SentencePiece, {"path": "x", "vocab_size": 9}, "tokenizer")
    with pytest.raises(ConfigError, match=r"tokenizer.path=nowhere: there is no such file"):
        build_recipe({"name": "sentencepiece", "path": "nowhere"})
    with pytest.raises(ConfigError, match=r"one file, or two"):
        build_recipe({"name": "sentencepiece", "path": []})


CODES = "#version: 0.2\nl o\nlo w\ne r</w>\nw er</w>\nlow er</w>\n"


def cut_by_hand(word: str, merges: list[list[str]]) -> list[str]:
    """Sennrich's algorithm: join the pair of the first merge until none is left."""
    pieces = [*word[:-1], word[-1] + "</w>"]
    while pairs := [m for m in merges if tuple(m) in pairwise(pieces)]:
        one, other = pairs[0]
        joined, rest = [], pieces
        while rest:
            size = 2 if rest[:2] == [one, other] else 1
            joined, rest = [*joined, "".join(rest[:size])], rest[size:]
        pieces = joined
    return pieces


def codes_file(folder: Path, text: str = CODES) -> str:
    (folder / "codes").write_text(text, encoding="utf-8")
    return str(folder / "codes")


def test_codes_join_the_same_pieces(tmp_path: Path) -> None:
    merges = [line.split(" ") for line in CODES.splitlines()[1:]]
    tokenizer = SubwordNMT(path=codes_file(tmp_path)).train(["slower wolves </w> < s >"])
    for text in ("lower low slow", "wer er e", "wolowo lowlower", "s <s> </w>"):
        [ids] = tokenizer.encode_batch([text])
        names = [tokenizer.symbols()[i] for i in ids]
        assert names == [piece for word in text.split() for piece in cut_by_hand(word, merges)]
        assert tokenizer.decode_batch([ids]) == [text]
    assert UNK in tokenizer.encode_batch(["lowx"])[0]
    with pytest.raises(ConfigError, match="tokenizer=subword_nmt"):
        Spelling(tokenizer)


def test_codes_cut_the_demo_as_subword_nmt_does(tmp_path: Path) -> None:
    learn = pytest.importorskip("subword_nmt.learn_bpe", reason="pip install subword-nmt")
    apply = pytest.importorskip("subword_nmt.apply_bpe")
    lines = demo_lines(400)
    with (tmp_path / "codes").open("w", encoding="utf-8") as file:
        learn.learn_bpe(iter(lines), file, 200)
    with (tmp_path / "codes").open(encoding="utf-8") as file:
        judge = apply.BPE(file)
    tokenizer = SubwordNMT(path=str(tmp_path / "codes")).train(lines)
    names = tokenizer.symbols()
    for line, ids in zip(lines, tokenizer.encode_batch(lines), strict=True):
        ours = [
            names[i].removesuffix("</w>") if names[i].endswith("</w>") else names[i] + "@@"
            for i in ids
        ]
        assert ours == judge.process_line(line).split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "codes:1: '' should be '#version: 0.2'"),
        (CODES + "a b c\n", "codes:7: 'a b c' should be"),
    ],
)
def test_what_holds_no_codes_is_refused_with_its_line(
    text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=words):
        SubwordNMT(path=codes_file(tmp_path, text)).train([])


@pytest.mark.parametrize(
    ("normal", "kinds"), [(b"", {}), (field(4, 0) + field(3, 0), {}), (b"", {"aba": 4})]
)
def test_a_model_is_written_again_from_the_tokenizer(normal: bytes, kinds: dict) -> None:
    first = built(model_bytes(PIECES, normal, **kinds))
    again = built(piece_model.serialize(spm.piece_model_of(first)))
    assert again.symbols() == first.symbols()
    texts = ["abab  <a b", " ", "x aba", "<s>"]
    assert again.encode_batch(texts) == first.encode_batch(texts)


def test_a_tokenizer_with_tags_beside_its_pieces_becomes_no_model() -> None:
    """The model would lack them, and be smaller than the matrix of embeddings."""
    with pytest.raises(ConfigError, match="without .* tags and context"):
        spm.piece_model_of(built(model_bytes(PIECES, b"")).with_tags(["next sentence"]))


@pytest.mark.slow
def test_a_unigram_tokenizer_of_ours_becomes_a_model_of_sentencepiece() -> None:
    trainer = pytest.importorskip("sentencepiece", reason="pip install sentencepiece")
    lines = demo_lines(100)
    tokenizer = build_recipe({"name": "unigram", "vocab_size": 400}).train(lines)
    judge = trainer.SentencePieceProcessor(
        model_proto=piece_model.serialize(spm.piece_model_of(tokenizer))
    )
    texts = [*lines, "\u4e2d a  b ", ""]
    names = [[tokenizer.symbols()[i] for i in row] for row in tokenizer.encode_batch(texts)]
    assert judge.encode(texts, out_type=str) == names
