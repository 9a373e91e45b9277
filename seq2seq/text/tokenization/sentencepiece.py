"""Converts SentencePiece models for the `tokenizers` library, and back."""

import json
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.plugins import import_library
from seq2seq.base.symbols import NAMES, UNK
from seq2seq.text.tokenization import piece_model
from seq2seq.text.tokenization.piece_model import ABSENT, NORMAL, Piece, PieceModel, mark_absent
from seq2seq.text.tokenization.recipe import PretrainedTokenizer
from seq2seq.text.tokenization.tokenizer import Tokenizer
from seq2seq.text.tokenization.unigram import BYTES, FOREIGN, LESS, MARK, WORDS

Merges = Sequence[tuple[str, str]] | None  # pairs of pieces, in the order of merging
SMALLEST = 1.1754943508222875e-38  # smallest score from which SentencePiece searches the largest


def build_tokenizer(
    model: PieceModel,
    vocabulary: Sequence[str] | None = None,
    tags: Mapping[str, str] | None = None,
    merges: Merges = None,
) -> Tokenizer:
    """Build a tokenizer that segments text as the model does.

    Ids are the four control symbols, then `vocabulary`. Two things differ from SentencePiece:
    U+FDD0, U+FDD1 and U+100000 to U+10FFFD in a text become U+FFFD; and normalisation is applied to
    each user-perceived character separately, which leaves some sequences of combining marks
    unchanged.

    Args:
        vocabulary: all pieces of the model, and optionally others, used only in decoding. A run of
            characters that the model lacks is looked up as a whole among them, as in programs that
            look up the pieces of SentencePiece by name. None = the pieces of the model.
        tags: pieces that become control symbols, which no text contains -> names of the symbols.
        merges: pairs that byte pair encoding merges, in order; None = by the scores of pieces.

    Raises: DataError if the normalisation of the model is damaged, or pieces cannot be looked up.
    """
    listed = model.named if vocabulary is None else vocabulary
    known, tags = model.names(), tags or {}
    of_model = {piece.text: piece for piece in model.pieces}
    names = [*NAMES, *(tags.get(n) or known.get(n) or mark_absent(n) for n in listed)]
    symbols = [Piece(name, 0.0, piece_model.CONTROL) for name in NAMES]
    found = symbols + [of_model.get(n, Piece(n, 0.0, piece_model.UNUSED)) for n in listed]
    build_model = bpe_model if model.algorithm == piece_model.BPE else unigram_model
    named = merges and [(known[first], known[second]) for first, second in merges]
    library = tokenizers.Tokenizer(build_model(names, found, model.has_bytes, named))
    library.add_special_tokens([*NAMES, *tags.values()])
    lacking = [name for name in listed if name not in of_model and name not in tags]
    library.normalizer = normalizers.Sequence(normal_steps(model) + lookup_steps(model, lacking))
    leading = piece_model.LONGEST if model.collapse else int(model.prefix)  # spaces to strip
    coded = model.symbols if model.algorithm == piece_model.BPE else {}
    # Each word is segmented separately, unless a piece spans two words, or the mark alone is
    # unknown, since adjacent unknown characters become one piece.
    by_word = MARK in model.named and not any(MARK in name[1:] for name in model.named)
    library.pre_tokenizer = pre_tokenizers.Sequence([WORDS] if by_word else [])
    steps: list[Any] = [decoders.ByteFallback()] if model.has_bytes else []
    steps += [decoders.Fuse(), decoders.Replace(ABSENT, "")]
    steps += [decoders.Replace(code, text) for text, code in coded.items()]
    steps += [decoders.Replace(MARK, " "), *([decoders.Strip(" ", leading, 0)] if leading else [])]
    library.decoder = decoders.Sequence([*steps, decoders.Replace(LESS, "<")])
    return Tokenizer(library)


def unigram_model(names: list[str], found: Sequence[Piece], has_bytes: bool, _: Merges) -> Any:
    scores = [piece.score for piece in found if piece.kind == NORMAL]
    best, worst = max([SMALLEST, *scores]), min([0.0, *scores])

    def score(name: str, piece: Piece) -> float:
        if piece.kind == piece_model.USER_DEFINED:  # SentencePiece's score for them
            return len(piece.text.encode()) * best - 0.1
        if piece.kind == piece_model.BYTE and name == LESS:
            return worst - 10  # the score of all unknown characters
        return piece.score if piece.kind == NORMAL else 0.0

    scored = [(name, score(name, piece)) for name, piece in zip(names, found, strict=True)]
    return models.Unigram(scored, UNK, has_bytes)


def bpe_model(names: list[str], found: Sequence[Piece], has_bytes: bool, given: Merges) -> Any:
    """A BPE model whose merges are in the order of scores: the pair that makes the piece with the
    best score is merged first. Of the pairs that make the same piece, the one that begins with the
    longer piece comes first. Given merges are used instead, in their order.
    """
    ids = {name: i for i, name in enumerate(names)}
    usable = [(name, p) for name, p in zip(names, found, strict=True) if p.kind == NORMAL]
    whole = {name for name, _ in usable}
    merges = given or [
        (name[:cut], name[cut:])
        for name, _ in sorted(usable, key=lambda entry: -entry[1].score)
        for cut in range(len(name) - 1, 0, -1)
        if name[:cut] in whole and name[cut:] in whole
    ]
    return models.BPE(ids, merges, unk_token=NAMES[UNK], fuse_unk=True, byte_fallback=has_bytes)


def normal_steps(model: PieceModel) -> list[Any]:
    """The normalizers to apply before segmentation."""
    replace, changed = normalizers.Replace, model.symbols_to_protect()
    steps = [
        replace(Regex(f"[{piece_model.RESERVED}]"), ABSENT),
        *(replace(text, code) for text, code in changed.items()),
        *piece_model.character_map(model),
        replace(Regex(f"[{LESS}{ABSENT}]"), FOREIGN),  # after the map, which may add them
        replace("<", LESS),
    ]
    if model.collapse:
        steps += [replace(Regex(" +"), " "), replace(Regex("^ "), "")]
    if model.prefix:
        steps.append(normalizers.Prepend(" "))
    steps += [replace(code, text.replace("<", LESS)) for text, code in changed.items()]
    steps.append(replace(" ", MARK))
    if model.collapse:
        # Matches from the first mark of a run only, so that other runs are not tried at each mark.
        steps.append(replace(Regex(f"(?<!{MARK}){MARK}+$"), ""))
    if model.algorithm == piece_model.BPE:
        steps += [replace(text.replace("<", LESS), c) for text, c in model.symbols.items()]
    return steps


def lookup_steps(model: PieceModel, lacking: Iterable[str]) -> list[Any]:
    """Normalizers that put marks around characters that the model lacks, so that a run of them is
    looked up as a whole: SentencePiece returns such a run as one piece without an id.

    Args:
        model: model that segments text.
        lacking: pieces of the vocabulary that the model lacks.

    Raises: DataError if such pieces cannot be looked up with this kind of model.
    """
    texts = [name for text, name in model.names().items() if text in set(model.named)]
    alone = {name for name in texts if len(name) == 1}
    parts = {letter for name in texts for letter in name}
    wanted = [name for name in lacking if not alone & {*name.replace("<", LESS)}]
    if not wanted or model.has_bytes:
        return []
    if model.algorithm == piece_model.BPE or parts & {*"".join(wanted)}:
        raise DataError(
            f"the vocabulary has pieces such as {wanted[0]!r:.60} with characters that the model "
            "lacks: only unigram models that have each of their characters as a piece support this"
        )
    known = f"[{''.join(map(re.escape, sorted(parts)))}]"
    others = f"[^{known[1:]}"
    edges = f"(?<!{others})(?={others})|(?<={others})(?!{others})"
    return [normalizers.Replace(Regex(edges), ABSENT)]


def piece_model_of(tokenizer: Tokenizer) -> PieceModel:
    """The model from which `build_tokenizer` makes the same tokenizer, apart from the ids.

    Raises: ConfigError if no SentencePiece model segments text like the tokenizer.
    """
    content = json.loads(tokenizer.to_json())
    model, listed = content["model"], (content["normalizer"] or {}).get("normalizers", [])
    steps, spelled = {step["type"]: step for step in listed}, json.dumps(listed)
    beside = any(token["id"] >= len(model["vocab"]) for token in content["added_tokens"])
    has_own_steps = beside or "NFC" in steps or "Split" in json.dumps(content)
    if model["type"] != "Unigram" or has_own_steps or "(?<![^" in spelled:  # from `lookup_steps`
        raise ConfigError(
            "no SentencePiece model gives the same pieces: train with tokenizer=unigram or "
            "tokenizer=sentencepiece (unigram), without normalize, isolate_cjk, tags and context"
        )
    tags = {token["content"] for token in content["added_tokens"]}
    # Private characters replace the symbols that normalisation must not change.
    patterns = ((step.get("pattern", {}).get("String", ""), step) for step in listed)
    kept = {step["content"] for pattern, step in patterns if pattern >= chr(piece_model.FIRST_CODE)}
    has_less_byte = piece_model.LESS_BYTE in dict(model["vocab"]) or not model["byte_fallback"]
    pieces = []
    for name, score in model["vocab"][len(NAMES) :]:
        text, kind = name.replace(LESS, "<"), NORMAL
        if name in tags or name.startswith(ABSENT):
            plain, kind = text.strip(ABSENT), piece_model.UNUSED
            text = text if plain in NAMES else plain
        elif name == LESS and not has_less_byte:
            text, kind = piece_model.LESS_BYTE, piece_model.BYTE
        elif model["byte_fallback"] and name in BYTES:
            kind = piece_model.BYTE
        elif name in kept:
            kind = piece_model.USER_DEFINED
        pieces.append(Piece(text, 0.0 if kind == piece_model.USER_DEFINED else score, kind))
    charsmap = steps.get("Precompiled", {}).get("precompiled_charsmap", "")
    known = [Piece(NAMES[UNK], 0.0, piece_model.UNKNOWN)]
    known += [Piece(name, 0.0, piece_model.CONTROL) for name in NAMES[1:3]]
    prefix, collapse = "Prepend" in steps, '"Regex": " +"' in spelled
    return PieceModel([*known, *pieces], piece_model.UNIGRAM, b64decode(charsmap), prefix, collapse)


def probe_texts(model: PieceModel) -> list[str]:
    """Texts for comparing a tokenizer with SentencePiece: every piece, alone and followed by the
    next one, characters that are normalised, and names of control symbols.
    """
    texts = [name.replace(MARK, " ") for name in model.named]
    others = ["a  b ", " ", MARK, "ﬁ½①ｆｕｌｌ　ｗｉｄｔｈ", "é e\u0301"]
    others += ["a\tb\u00a0c\u200bd\u0085e", *NAMES]
    return [*texts, *map("".join, pairwise(texts)), *others]


def compare_with_library(tokenizer: Tokenizer, data: bytes, texts: Sequence[str]) -> list[str]:
    """The texts that the library sentencepiece segments differently.

    Args:
        tokenizer: result of `build_tokenizer`.
        data: bytes of the model.

    Raises: ConfigError if the package sentencepiece is not installed.
    """
    judge = import_library("sentencepiece").SentencePieceProcessor(model_proto=data)
    theirs = [judge.id_to_piece(i) for i in range(judge.get_piece_size())]
    texts_of = {name: text for text, name in piece_model.parse_piece_model(data).names().items()}
    ours = [texts_of.get(name, name) for name in tokenizer.symbols()]
    theirs[judge.unk_id()] = ours[UNK]
    rows = zip(judge.encode(list(texts)), tokenizer.encode_batch(list(texts)), strict=True)
    return [
        text
        for text, (their_ids, our_ids) in zip(texts, rows, strict=True)
        if [theirs[i] for i in their_ids] != [ours[i] for i in our_ids]
    ]


@dataclass(frozen=True, kw_only=True)
class SentencePiece(PretrainedTokenizer):
    """The pieces of a SentencePiece model file, `.model` or `.spm`; nothing is learnt.

    Args:
        path: path of a model for both languages, or two paths, source then target.

    Raises: ConfigError if there is no such file.
    """

    def train(self, lines: Iterable[str], side: int = 0) -> Tokenizer:
        """Read the tokenizer from the file. Raises: DataError if it is no supported model."""
        return build_tokenizer(piece_model.read_piece_model(self.paths[side]))
