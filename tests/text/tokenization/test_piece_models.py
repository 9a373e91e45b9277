"""Models that the package sentencepiece trains, of many options: its ids, or a refusal."""

import io
import random
from typing import Any

import pytest
from helpers.piece_models import field, model_bytes

from seq2seq.base.errors import DataError
from seq2seq.base.symbols import NAMES, UNK
from seq2seq.text.tokenization import piece_model
from seq2seq.text.tokenization import sentencepiece as spm
from seq2seq.text.tokenization.tokenizer import Tokenizer

LETTERS = "abcdefaghabi1234ABU"
ODD = [
    *"<>&%$#@!?.,;:'\"()[]{}", "\t", "  ", "\u3000", "\uff41", "\ufb01", "\u00bd", "\u00e9",
    "e\u0301", "\u00df", "\u0130", "\u4e2d", "\u6587", "\u65e5\u672c", "\uac00", "\u2581",
    "\u200b", "\u00a0", "\U0001f600", "\uff21", "<s>", "</s>", "<unk>", "<0x41>", "<URL>",
    "\u00ad", "\u2167", "\x07",
]  # fmt: skip
SYMBOLS = [
    [], ["<URL>"], ["<URL>", "\t"], ["ab"], ["ab", "bc"], ["ab", "abc", "<s1>"], ["<pad>", "a"],
    ["\u2581\u2581", "\u2581\u2581\u2581"], ["\uff21"], ["ABC"], ["  "], ["\u00e9"], ["<a", "<"],
    ["0", "00"], ["\u2581a"], ["x\u2581y"],
]  # fmt: skip
REFUSALS = ("treat_whitespace_as_suffix", "model removes from text", "overlap", "its type is")


def text_of(chance: random.Random, odd: float) -> str:
    def word() -> str:
        parts = (
            chance.choice(ODD) if chance.random() < odd else chance.choice(LETTERS)
            for _ in range(chance.randint(1, 7))
        )
        return "".join(parts)

    return chance.choice([" ", " ", "  "]).join(word() for _ in range(chance.randint(0, 9)))


def trained_with(chance: random.Random, lines: list[str]) -> bytes:
    """A model of random options, or of the same kinds without those that fail together."""
    trainer = pytest.importorskip("sentencepiece", reason="pip install sentencepiece")
    with_bytes = chance.random() < 0.4
    options: dict[str, Any] = {
        "model_type": chance.choice(["unigram", "unigram", "bpe", "bpe", "char", "word"]),
        "vocab_size": chance.choice([100, 300]) + 256 * with_bytes,
        "byte_fallback": with_bytes,
        "normalization_rule_name": chance.choice(
            ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"]
        ),
        "character_coverage": chance.choice([1.0, 0.99, 0.98]),
        "user_defined_symbols": chance.choice(SYMBOLS),
        "control_symbols": chance.choice([[], ["<ctl>", "X"]]),
        "treat_whitespace_as_suffix": chance.random() < 0.05,
    }
    for name in (
        "add_dummy_prefix",
        "remove_extra_whitespaces",
        "split_digits",
        "allow_whitespace_only_pieces",
        "split_by_whitespace",
        "split_by_unicode_script",
    ):
        options[name] = chance.random() < 0.6
    options |= chance.choice([{}, {}, {"pad_id": 3}, {"unk_piece": "[UNK]", "bos_piece": "<b>"}])
    if options.get("pad_id") and "<pad>" in options["user_defined_symbols"]:
        options["user_defined_symbols"] = []
    return train(trainer, lines, **options)


def train(trainer: Any, lines: list[str], **options: Any) -> bytes:
    file = io.BytesIO()
    trainer.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=file,
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return file.getvalue()


def spelled(model: piece_model.PieceModel, tokenizer: Tokenizer, text: str) -> list[str | None]:
    """The pieces of a text by their names in the model; None for unknown ones."""
    names = {name: piece for piece, name in model.names().items()}
    [ids], symbols = tokenizer.encode_batch([text]), tokenizer.symbols()
    return [None if i == UNK else names[symbols[i]] for i in ids]


def is_tie(model: piece_model.PieceModel, one: list[str | None], other: list[str | None]) -> bool:
    """Are these cuts equally good? Sums in 32 bits decide between them there, in 64 here."""
    scores = {piece.text: piece.score for piece in model.pieces}
    sums = [sum(scores.get(str(name), -99.0) for name in cut) for cut in (one, other)]
    return model.algorithm == piece_model.UNIGRAM and abs(sums[0] - sums[1]) < 1e-3


@pytest.mark.parametrize(
    "seed", [*range(30), *(pytest.param(s, marks=pytest.mark.slow) for s in range(30, 300))]
)
def test_a_trained_model_gives_its_ids_or_is_refused_by_name(seed: int) -> None:
    package = pytest.importorskip("sentencepiece", reason="pip install sentencepiece")
    chance = random.Random(seed)
    lines = [text_of(chance, 0.05) for _ in range(200)]
    data = trained_with(chance, lines)
    try:
        model = piece_model.parse_piece_model(data)
    except DataError as error:
        assert any(reason in str(error) for reason in REFUSALS), error
        return
    tokenizer, judge = spm.build_tokenizer(model), package.SentencePieceProcessor(model_proto=data)
    assert tokenizer.symbols()[:4] == list(NAMES)
    assert tokenizer.size == len(NAMES) + len(model.named)
    texts = [text_of(chance, 0.2) for _ in range(40)] + lines[:20]
    texts += ["", "<", "<URL>", "a<b", "a\tb  c", "a" * 9, "abcabc", "ababababa", "\u2581\u2581 a"]
    for text in texts:
        theirs = judge.encode(text, out_type=int)
        names = [None if i == judge.unk_id() else judge.id_to_piece(i) for i in theirs]
        ours = spelled(model, tokenizer, text)
        if ours != names:
            assert is_tie(model, ours, names), text
        elif None not in names and not text.startswith("\u2581"):
            [back] = tokenizer.decode_batch(tokenizer.encode_batch([text]))
            assert back == judge.decode(theirs)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_users_symbols_are_found_as_sentencepiece_finds_them(kind: str) -> None:
    package = pytest.importorskip("sentencepiece", reason="pip install sentencepiece")
    words = ["Haus", "Hausboot", "Text", "<URL>x", "Tab"]
    lines = [" ".join(random.Random(i).choices(words, k=5)) for i in range(200)]
    own = ["<URL>", "\t", "us", "\n", "  "]
    data = train(
        package,
        lines,
        model_type=kind,
        vocab_size=60,
        user_defined_symbols=own,
        remove_extra_whitespaces=False,
    )
    model, judge = (
        piece_model.parse_piece_model(data),
        package.SentencePieceProcessor(model_proto=data),
    )
    tokenizer = spm.build_tokenizer(model)
    texts = ["Haus\tboot", "a  b", "<URL><URL> <URL", "Hausus", "\t\tTab\n", "  ", "Hausbus <URL>"]
    for text in texts:
        [ids] = tokenizer.encode_batch([text])
        theirs = judge.encode(text, out_type=str)
        assert spelled(model, tokenizer, text) == [
            None if judge.piece_to_id(piece) == judge.unk_id() else piece for piece in theirs
        ]
        if UNK not in ids:
            assert tokenizer.decode_batch([ids]) == [judge.decode(theirs)]
        again = Tokenizer.from_json(tokenizer.to_json())
        assert again.encode_batch([text]) == [ids]
    assert "\t" in spelled(model, tokenizer, "a\tb")
    spaces = spelled(model, tokenizer, "Haus  Haus")
    assert "".join(piece or "?" for piece in spaces).count("\u2581\u2581") == 1


PIECES = {"\u2581": -2.0, "a": -3.0, "b": -3.5, "ab": -5.0, "bc": -6.0, "c": -4.0}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (model_bytes(PIECES, normal=field(5, 0)), "escape_whitespaces=false"),
        (model_bytes(PIECES, normal=field(1, b"user_defined")), "normalization_rule_tsv"),
        (model_bytes(PIECES) + field(5, field(2, b"x")), "denormalization_rule_tsv"),
        (
            model_bytes({**PIECES, "x ": 0.0}, **{"x ": 4}),
            "user-defined symbol 'x ' contains spaces",
        ),
        (model_bytes({**PIECES, "\ufdd1": 0.0}), "a reserved character"),
        (model_bytes({**PIECES, "\U00100000": 0.0}), "a reserved character"),
        (
            model_bytes({**PIECES, "ab": 0.0, "bcd": 0.0}, b"", field(3, 2), ab=4, bcd=4),
            "'ab' and 'bcd' overlap",
        ),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_name(content: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        piece_model.parse_piece_model(content)


@pytest.mark.parametrize("algorithm", [piece_model.UNIGRAM, piece_model.BPE])
def test_a_sign_that_is_no_piece_is_its_byte(algorithm: int) -> None:
    named = {f"<0x{byte:02X}>": 0.0 for byte in range(256)}
    kinds = dict.fromkeys(named, piece_model.BYTE)
    data = model_bytes({**PIECES, **named}, b"", field(3, algorithm), **kinds)
    model = piece_model.parse_piece_model(data)
    tokenizer = spm.build_tokenizer(model)
    for text, pieces in (
        ("a<b", ["\u2581", "a", "<0x3C>", "b"]),
        ("<0x41>", ["\u2581", "<0x3C>", *(f"<0x{ord(c):02X}>" for c in "0x41>")]),
        ("<\u00e9", ["\u2581", "<0x3C>", "<0xC3>", "<0xA9>"]),
    ):
        assert spelled(model, tokenizer, text) == pieces
        assert tokenizer.decode_batch(tokenizer.encode_batch([text])) == [text]


def test_characters_that_the_model_lacks_are_looked_up_as_a_whole() -> None:
    model = piece_model.parse_piece_model(model_bytes(PIECES))
    tokenizer = spm.build_tokenizer(
        model, [*PIECES, "\u4e2d", "\u4e2d\u6587", "xx", "\u2581a\u4e2d", "abc"]
    )
    first = len(NAMES) + len(PIECES)
    for text, ids in (
        ("\u4e2d", [4, first]),
        ("\u4e2d\u6587", [4, first + 1]),
        ("\u4e2d\u4e2d", [4, UNK]),
        ("\u4e2d\u6587\u4e2d", [4, UNK]),
        ("a\u4e2db x", [4, 5, first, 6, 4, UNK]),
        ("axxb", [4, 5, first + 2, 6]),
    ):
        assert tokenizer.encode_batch([text]) == [ids], text
    assert tokenizer.decode_batch([[4, 5, first + 1, first]]) == ["a\u4e2d\u6587\u4e2d"]
    text = "a \u4e2db xxb"
    assert tokenizer.spans(text) == spm.build_tokenizer(model).spans(text)
    with pytest.raises(DataError, match="pieces such as 'x' with characters that the model lacks"):
        spm.build_tokenizer(
            piece_model.parse_piece_model(model_bytes(PIECES, b"", field(3, 2))), [*PIECES, "x"]
        )
