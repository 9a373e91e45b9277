"""Vocabularies of other programs: pieces of SentencePiece, and a file that numbers them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seq2seq.errors import DataError
from seq2seq.interchange.files import Folder
from seq2seq.symbols import EOS, NAMES, UNK
from seq2seq.tokenization import piece_model, sentencepiece
from seq2seq.tokenization.tokenizer import TAG, Tokenizer


class VocabularyMap(NamedTuple):
    """The rows of their tables of embeddings that make up ours.

    Attributes:
        ids: their id of each of ours; the four symbols come first.
        names: of ours, after the four symbols.
        missing: how many at the end have no id of their own there.
    """

    ids: list[int]
    names: list[str]
    missing: int

    @property
    def their_size(self) -> int:
        """The size of their vocabulary."""
        return max(self.ids) + 1

    def extend(self, more: list[str]) -> "VocabularyMap":
        """The map with more pieces, which have no id of their own: each is read as `<unk>`."""
        unknown = [self.ids[UNK]] * len(more)
        return VocabularyMap([*self.ids, *unknown], [*self.names, *more], self.missing + len(more))


class SideVocabulary(NamedTuple):
    """The vocabulary of the source or of the target."""

    model: piece_model.PieceModel
    data: bytes  # of the model
    ids: Mapping[str, int]  # of the pieces

    def map_rows(self, start: int) -> VocabularyMap:
        """Their id of each of ours.

        A piece of the SentencePiece model that has no number is read as the unknown symbol is.

        Args:
            start: their id for `<pad>` and for `<s>`, which the decoder reads first.
        """
        symbols = [start, start, self.ids[NAMES[EOS]], self.ids[NAMES[UNK]]]
        rest = sorted((i, name) for name, i in self.ids.items() if i not in symbols)
        missing = [name for name in self.model.named if name not in self.ids]
        known = VocabularyMap([*symbols, *(i for i, _ in rest)], [name for _, name in rest], 0)
        return known.extend(missing)


def merge_if_shared(
    sides: Sequence[SideVocabulary], maps: list[VocabularyMap]
) -> list[VocabularyMap]:
    """Over a shared vocabulary, each side has the pieces of the other, too."""
    if sides[0].ids != sides[1].ids:
        return maps
    both = maps[0].extend([n for n in maps[1].names if n not in set(maps[0].names)])
    return [both, both]


def build_side_tokenizer(side: SideVocabulary, rows: VocabularyMap) -> Tokenizer:
    """The tokenizer of a side. Codes of languages, `>>fr<<`, are tags: `<tag fr>`."""
    codes = [name for name in rows.names if re.fullmatch(r">>[^<>]+<<", name)]
    tags = {name: TAG.format(name[2:-2]) for name in codes}
    return sentencepiece.build_tokenizer(side.model, rows.names, tags)


def check_numbering(ids: Mapping[str, Any], where: str) -> Mapping[str, int]:
    """The ids. Raises: DataError unless every piece has one of the numbers from 0 on, as have
    `</s>` and `<unk>`.
    """
    values = sorted(i for i in ids.values() if type(i) is int)
    if values != list(range(len(ids))):
        raise DataError(f"{where} should give each piece one of the ids from 0 on")
    if lacking := [NAMES[symbol] for symbol in (EOS, UNK) if NAMES[symbol] not in ids]:
        raise DataError(f"{where} has no {' and no '.join(lacking)}")
    return ids


def read_yaml_ids(folder: Folder, name: str) -> Mapping[str, int]:
    """The ids in a `vocab.yml` of Marian: a line `piece: id` for each piece.

    A piece is what is written, whatever it means in YAML (`no`, `~` and `1` are pieces).

    Raises: DataError for anything else, and for a piece that has two ids.
    """
    import yaml  # type: ignore[import-untyped]

    path = folder.find(name)
    # In C where it is there: 10 times faster.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not plain YAML: {error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise DataError(f"{path} should hold a line `piece: id` for each piece")
    ids: dict[str, int] = {}
    for key, value in root.value:
        line = f"{path}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode) or not re.fullmatch("[0-9]{1,9}", str(value.value)):
            raise DataError(f"{line}: expected `piece: id`, and a whole number as id")
        if key.value in ids:
            raise DataError(f"{line}: {key.value!r:.60} has an id already, {ids[key.value]}")
        ids[key.value] = int(value.value)
    return check_numbering(ids, str(path))
