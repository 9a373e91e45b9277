"""SentencePiece models, read into the `tokenizers` library.

A `.model` (or `.spm`) file is a protocol buffer: pieces with scores, and how text is normalised.
Kudo and Richardson 2018, arXiv:1808.06226.
"""

import json
import math
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from seq2seq.data.existing import wire
from seq2seq.data.existing.given import LARGEST, Given
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.data.unigram import BYTES, FOREIGN, LESS, LITERAL_MARK, MARK
from seq2seq.errors import ConfigError, DataError
from seq2seq.symbols import NAMES, UNK

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # kinds of pieces
UNIGRAM, BPE = 1, 2  # kinds of models
OTHERS = {3: "word", 4: "char"}
LONGEST = 1000  # characters of a piece; usual ones have at most 16
# Before the name of a piece that no text has, so that it is never found in one.
ABSENT = LITERAL_MARK


class Piece(NamedTuple):
    """One of the pieces of a model."""

    text: str
    score: float
    kind: int


class PieceModel(NamedTuple):
    """What a `.model` file holds."""

    pieces: list[Piece]
    algorithm: int  # UNIGRAM or BPE
    charsmap: bytes  # how characters are normalised; empty: they stay as they are
    prefix: bool  # is a space put before the text?
    collapse: bool  # are spaces at the ends removed, and runs of them made one?

    def written(self, text: str) -> str:
        """Text as the library sees it. A unigram model finds any name in a text; with another sign
        for "<", no text has the name of a symbol or a byte. Byte pair encoding only finds merges.
        """
        return text.replace("<", LESS) if self.algorithm == UNIGRAM else text

    @property
    def named(self) -> list[str]:
        """The pieces that text may have, in order."""
        return [piece.text for piece in self.pieces if piece.kind in (NORMAL, USER_DEFINED, BYTE)]


def read(path: Path) -> PieceModel:
    """Read a file. Raises: DataError if it is no model, or of an unsupported kind."""
    try:
        size = path.stat().st_size
        if not path.is_file() or size > LARGEST:
            raise DataError(f"{path} is not a SentencePiece model: {size:,} bytes, or not a file")
        return parse(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}. It should be a SentencePiece model") from error
    except DataError as error:
        raise DataError(f"{path} is not a SentencePiece model that can be used: {error}") from error


def parse(data: bytes) -> PieceModel:
    """The model in the bytes of a file. Raises: DataError."""
    pieces, trainer, normalizer = [], b"", b""
    for number, value in wire.fields(data):
        if number == 1:
            pieces.append(piece_of(wire.bytes_of(value)))
        elif number == 2:
            trainer = wire.bytes_of(value)
        elif number == 3:
            normalizer = wire.bytes_of(value)
    training, normal = dict(wire.fields(trainer)), dict(wire.fields(normalizer))
    algorithm = training.get(3, UNIGRAM)
    names = [piece.text for piece in pieces]
    if not pieces or len(set(names)) < len(names):
        raise DataError("it has no pieces" if not pieces else "two of its pieces are equal")
    if algorithm not in (UNIGRAM, BPE):
        raise DataError(
            f"it is of the kind {OTHERS.get(int(algorithm), algorithm)!r}: use one of unigram or "
            "bpe, or tokenizer=word or char"
        )
    if training.get(24):
        raise DataError("it marks words at their end (treat_whitespace_as_suffix)")
    charsmap = wire.bytes_of(normal.get(2, b""))
    return PieceModel(
        pieces, int(algorithm), charsmap, bool(normal.get(3, True)), bool(normal.get(4, True))
    )


def piece_of(message: bytes) -> Piece:
    content = dict(wire.fields(message))
    name, score = wire.text(content.get(1, b"")), wire.float_of(content.get(2, b"\0" * 4))
    if not name or len(name) > LONGEST or not math.isfinite(score):
        raise DataError(f"the piece {name[:30]!r} has no name, a very long one, or no finite score")
    return Piece(name, score, int(content.get(3, NORMAL)))


def build(
    model: PieceModel,
    vocabulary: Sequence[str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> Tokenizer:
    """The tokenizer that cuts text as the model does.

    Ids are the four control symbols, then `vocabulary`. Equal to SentencePiece up to the following:
    U+FDD0 and U+FDD1 in a text become U+FFFD; characters are normalised in each user-perceived
    character separately, so that some sequences of combining marks stay as they are.

    Args:
        vocabulary: all pieces of the model and perhaps more, which no text has, but which decode;
            None for those of the model.
        tags: pieces that no text has, and their names as control symbols.

    Raises: DataError if the normalisation of the model is damaged.
    """
    listed = model.named if vocabulary is None else vocabulary
    of_model, tags = {piece.text: piece for piece in model.pieces}, tags or {}
    found = [of_model.get(name, Piece(name, 0.0, UNUSED)) for name in [*NAMES, *listed]]
    names = list(NAMES)
    for name, piece in zip(listed, found[len(NAMES) :], strict=True):
        shown = name if piece.kind == BYTE else model.written(name)
        if piece.kind not in (NORMAL, USER_DEFINED, BYTE):
            shown = tags.get(name, ABSENT + shown)
        names.append(shown)
    has_bytes = any(piece.kind == BYTE for piece in model.pieces)
    library = tokenizers.Tokenizer(
        bpe_model(names, found, has_bytes)
        if model.algorithm == BPE
        else unigram_model(names, found, has_bytes)
    )
    library.add_special_tokens([*NAMES, *tags.values()])
    library.normalizer = normalizer_of(model)
    cuts = [pre_tokenizers.Metaspace(MARK, prepend_scheme="never")]
    library.pre_tokenizer = pre_tokenizers.Sequence(cuts if splits_at_marks(model) else [])
    library.decoder = decoders.Sequence(
        [
            *([decoders.ByteFallback()] if has_bytes else []),
            decoders.Fuse(),
            decoders.Replace(ABSENT, ""),
            decoders.Replace(MARK, " "),
            *([decoders.Strip(" ", 1, 0)] if model.prefix else []),
            decoders.Replace(LESS, "<"),
        ]
    )
    return Tokenizer(library)


def unigram_model(names: list[str], found: Sequence[Piece], has_bytes: bool) -> Any:
    best = max((piece.score for piece in found if piece.kind == NORMAL), default=0.0)

    def score(piece: Piece) -> float:
        if piece.kind == USER_DEFINED:  # as SentencePiece prefers them
            return len(piece.text.encode()) * best - 0.1
        return piece.score if piece.kind == NORMAL else 0.0

    scored = [(name, score(piece)) for name, piece in zip(names, found, strict=True)]
    return models.Unigram(scored, UNK, has_bytes)


def bpe_model(names: list[str], found: Sequence[Piece], has_bytes: bool) -> Any:
    """Merges in the order of scores: the pair whose sum has the best score is merged first."""
    ids = {name: i for i, name in enumerate(names)}
    usable = [(name, p) for name, p in zip(names, found, strict=True) if p.kind in (1, 4)]
    whole = {name for name, _ in usable}
    merges = [
        (name[:cut], name[cut:])
        for name, _ in sorted(usable, key=lambda entry: -entry[1].score)
        for cut in range(1, len(name))
        if name[:cut] in whole and name[cut:] in whole
    ]
    return models.BPE(ids, merges, unk_token=NAMES[UNK], fuse_unk=True, byte_fallback=has_bytes)


def normalizer_of(model: PieceModel) -> normalizers.Normalizer:
    steps: list[Any] = []
    if model.charsmap:
        try:
            steps.append(normalizers.Precompiled(model.charsmap))
            steps[0].normalize_str("a\u00e9")
        except BaseException as error:  # the library panics, which is not an Exception
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise DataError(f"its normalisation is damaged: {error}") from error
    steps += [
        normalizers.Replace(Regex(f"[{LESS}{LITERAL_MARK}]"), FOREIGN),
        normalizers.Replace("<", model.written("<")),
    ]
    if model.collapse:
        steps += [normalizers.Replace(Regex(" +"), " "), normalizers.Replace(Regex("^ "), "")]
    if model.prefix:
        steps.append(normalizers.Prepend(" "))
    steps.append(normalizers.Replace(" ", MARK))
    if model.collapse:
        # From its first mark: a run that ends nothing is not tried again at each of its marks.
        steps.append(normalizers.Replace(Regex(f"(?<!{MARK}){MARK}+$"), ""))
    return normalizers.Sequence(steps)


def splits_at_marks(model: PieceModel) -> bool:
    """Can words be cut one by one? Not if a piece reaches over two of them, or if the mark alone is
    unknown, since neighbours that are unknown become one.
    """
    return MARK in model.named and not any(MARK in name[1:] for name in model.named)


def model_of(tokenizer: Tokenizer) -> PieceModel:
    """The model from which `build` makes an equal tokenizer, up to the ids.

    Raises: ConfigError for a tokenizer that no SentencePiece model equals.
    """
    content = json.loads(tokenizer.to_json())
    model, steps = content["model"], (content["normalizer"] or {}).get("normalizers", [])
    steps = {step["type"]: step for step in steps} | {"spaces": json.dumps(steps)}
    if model["type"] != "Unigram" or "NFC" in steps or "Split" in json.dumps(content):
        raise ConfigError(
            "its pieces are not those of a SentencePiece model: train with tokenizer=unigram or "
            "tokenizer=sentencepiece (unigram), without normalize and isolate_cjk"
        )
    tags, pieces = {token["content"] for token in content["added_tokens"]}, []
    for name, score in model["vocab"][len(NAMES) :]:
        kind = BYTE if model["byte_fallback"] and name in BYTES else NORMAL
        kind = UNUSED if name.startswith(ABSENT) or name in tags else kind
        pieces.append(Piece(name.replace(LESS, "<"), score, kind))
    charsmap = steps.get("Precompiled", {}).get("precompiled_charsmap", "")
    symbols = [Piece(NAMES[UNK], 0.0, UNKNOWN), *(Piece(n, 0.0, CONTROL) for n in NAMES[1:3])]
    return PieceModel(
        [*symbols, *pieces],
        UNIGRAM,
        b64decode(charsmap),
        "Prepend" in steps,
        '"Regex": " +"' in steps["spaces"],
    )


def serialize(model: PieceModel) -> bytes:
    """The bytes of a file, as `parse` reads them."""
    pieces = b"".join(
        wire.written(
            1, wire.written(1, name.encode()) + wire.written(2, score) + wire.written(3, k)
        )
        for name, score, k in model.pieces
    )
    has_bytes = any(piece.kind == BYTE for piece in model.pieces)
    normal = [(2, model.charsmap), (3, int(model.prefix)), (4, int(model.collapse))]
    training = wire.written(3, model.algorithm) + wire.written(35, int(has_bytes))
    normalizer = b"".join(starmap(wire.written, normal))
    return pieces + wire.written(2, training) + wire.written(3, normalizer)


def probes(model: PieceModel) -> list[str]:
    """Texts on which a tokenizer is compared with SentencePiece: every piece, alone and beside the
    next, characters that are normalised, and names of symbols.
    """
    texts = [name.replace(MARK, " ") for name in model.named]
    others = [
        "a  b ",
        " ",
        MARK,
        "ﬁ½①ｆｕｌｌ　ｗｉｄｔｈ",
        "é e\u0301",
        "a\tb\u00a0c\u200bd\u0085e",
        *NAMES,
    ]
    return [*texts, *map("".join, zip(texts, texts[1:], strict=False)), *others]


def differences(tokenizer: Tokenizer, data: bytes, texts: Sequence[str]) -> list[str]:
    """The texts that SentencePiece itself cuts in another way.

    Args:
        tokenizer: from `build`.
        data: the bytes of the model.

    Raises: ConfigError if the package sentencepiece is not installed.
    """
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise ConfigError(
            "the package sentencepiece is not installed: pip install sentencepiece"
        ) from error
    judge = SentencePieceProcessor(model_proto=data)
    unknown, names = judge.unk_id(), tokenizer.symbols()
    theirs = [
        [None if i == unknown else judge.id_to_piece(i) for i in row]
        for row in judge.encode(list(texts), out_type=int)
    ]
    ours = [
        [None if i == UNK else names[i].replace(LESS, "<") for i in row]
        for row in tokenizer.encode_batch(list(texts))
    ]
    return [text for text, a, b in zip(texts, ours, theirs, strict=True) if a != b]


@dataclass(frozen=True, kw_only=True)
class SentencePiece(Given):
    """Nothing is learnt: the pieces are those of a SentencePiece model, `.model` or `.spm`.

    Args:
        path: of a model for both languages; or of two, source then target.

    Raises: ConfigError for a path without a file.
    """

    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """The tokenizer of the file. Raises: DataError for one that is no such model."""
        return build(read(self.paths[side]))
