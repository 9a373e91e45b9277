"""Convert models of other programs into ours, and write them as runs."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq import checkpoint
from seq2seq.base.errors import DataError
from seq2seq.base.symbols import BOS, EOS, NAMES, UNK
from seq2seq.interchange.files import Folder
from seq2seq.models import Seq2Seq, build_model
from seq2seq.text.tokenization import piece_model, sentencepiece
from seq2seq.text.tokenization.tokenizer import TAG, Tokenizer

NEVER = -1e4  # a logit with no probability that float16 can represent
# Our names of activations, by the names that other programs use.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}


class VocabularyMap(NamedTuple):
    """A map from our vocabulary to that of another program, for converting embeddings.

    Attributes:
        ids: the other program's id for each of our pieces; the four symbols come first.
        names: our pieces, without the four symbols.
        missing: number of pieces at the end for which the other program has no id.
    """

    ids: list[int]
    names: list[str]
    missing: int

    @property
    def their_size(self) -> int:
        """The size of the other program's vocabulary."""
        return max(self.ids) + 1

    def extend(self, more: list[str]) -> "VocabularyMap":
        """The map with additional pieces that the other program lacks; each is read as `<unk>`."""
        unknown = [self.ids[UNK]] * len(more)
        return VocabularyMap([*self.ids, *unknown], [*self.names, *more], self.missing + len(more))


class SideVocabulary(NamedTuple):
    """The vocabulary of the source or of the target."""

    model: piece_model.PieceModel
    data: bytes  # the file of the model
    ids: Mapping[str, int]  # the other program's id of each piece
    tags: Mapping[str, str] | None = None  # symbols that become tags; None = those like >>fr<<
    merges: sentencepiece.Merges = None  # as for `build_tokenizer`
    start: int | None = None  # id for our `<s>`; None = the id after the last
    pad: int | None = None  # id for our `<pad>`; None = as for `<s>`

    def map_rows(self) -> VocabularyMap:
        """Map our pieces to the other program's ids.

        A piece of the SentencePiece model that has no id is read as `<unk>`.
        """
        start = len(self.ids) if self.start is None else self.start
        pad = start if self.pad is None else self.pad
        symbols = [pad, start, self.ids[NAMES[EOS]], self.ids[NAMES[UNK]]]
        rest = sorted((i, name) for name, i in self.ids.items() if i not in symbols)
        missing = [name for name in self.model.named if name not in self.ids]
        known = VocabularyMap([*symbols, *(i for i, _ in rest)], [name for _, name in rest], 0)
        return known.extend(missing)


class ImportedModel(NamedTuple):
    """A model of another program, converted into ours."""

    saved: checkpoint.Saved
    files: dict[str, str]  # SHA-256 of each imported file, by name
    piece_models: list[bytes]  # files for SentencePiece, of source and target
    maps: list[VocabularyMap]  # of source and target

    def write(self, folder: Path) -> Seq2Seq:
        """Write the model as a run, and return it.

        Raises: CheckpointError if configuration and weights do not fit together, or if the file
            cannot be written.
        """
        model = self.saved.build()
        config = {**self.saved.config, "imported": self.files}
        saved = self.saved._replace(config=config, weights=model.state_dict())
        folder.mkdir(parents=True, exist_ok=True)
        saved.write(folder / "best.ckpt")
        return model


class Tensors(NamedTuple):
    """The tensors of a file, in our shapes, by the other program's names.

    Attributes:
        where: file, for messages.
        named: the tensors.
        names_of: function that returns the names that one of our parameters may have.
    """

    where: str
    named: Mapping[str, Tensor]
    names_of: Callable[[str], list[str]]

    def take(self, parameter: str, shape: Sequence[int]) -> Tensor:
        """The tensor of a parameter, in float32.

        Raises: DataError if there is no such tensor, if its shape differs or its values are not
            finite, or if tensors under several of its names are not equal.
        """
        names = self.names_of(parameter)
        present = [name for name in names if name in self.named]
        if not present:
            raise DataError(f"{self.where}: the weights lack {names[0]}")
        first, *others = (self.named[name] for name in present)
        if tuple(first.shape) != tuple(shape) or not first.is_floating_point():
            raise DataError(
                f"{self.where}: {present[0]} is {tuple(first.shape)} of {first.dtype}; according "
                f"to description and vocabulary it should be {tuple(shape)} of floats"
            )
        for name, other in zip(present[1:], others, strict=True):
            if not torch.equal(first, other):
                raise DataError(
                    f"{self.where}: {name} and {present[0]} should be equal: they are one parameter"
                )
        found = first.detach().to(torch.float32)
        if not found.isfinite().all():
            raise DataError(f"{self.where}: {present[0]} has values that are not finite")
        return found


def assemble(
    config: dict[str, Any], sides: Sequence[SideVocabulary], tensors: Tensors, files: dict[str, str]
) -> ImportedModel:
    """Convert a model, given its configuration, its vocabularies and its weights.

    Args:
        config: nodes of our configuration.
        sides: vocabularies of source and target; the same object twice if they share one.
        tensors: the other program's weights.
        files: SHA-256 of each file that was read, by name.

    Raises: DataError saying what is wrong with the files.
    """
    maps = [side.map_rows() for side in sides]
    if sides[0].ids == sides[1].ids:  # a shared vocabulary: each side gets the other's pieces too
        both = maps[0].extend([n for n in maps[1].names if n not in set(maps[0].names)])
        maps = [both, both]
    source = build_side_tokenizer(sides[0], maps[0])
    target = source if sides[0] is sides[1] else build_side_tokenizer(sides[1], maps[1])
    weights = build_state_dict(config, maps, tensors)
    saved = checkpoint.Saved(config, source, target, weights, resumable=False)
    return ImportedModel(saved, files, [side.data for side in sides], maps)


def build_state_dict(
    nodes: Mapping[str, Any], maps: Sequence[VocabularyMap], tensors: Tensors
) -> dict[str, Tensor]:
    """Our parameters of the model, by name.

    Raises: DataError naming tensors that are missing, damaged, or not used by any parameter.
    """
    with torch.device("meta"):  # names and shapes need no memory
        model = build_model(nodes, len(maps[0].ids), len(maps[1].ids))
    weights, unread = {}, set(tensors.named)
    for name, value in model.state_dict().items():
        unread.difference_update(tensors.names_of(name))
        if not name.startswith("embeddings."):
            weights[name] = tensors.take(name, value.shape)
            continue
        side = maps[not name.startswith("embeddings.source")]
        found = tensors.take(name, (side.their_size, *value.shape[1:]))[side.ids]
        if value.dim() == 1:
            found[BOS] = NEVER
            found[len(found) - side.missing :] = NEVER
        weights[name] = found
    if unread:
        raise DataError(
            f"{tensors.where}: {len(unread)} tensor(s) are not used, such as "
            f"{', '.join(sorted(unread)[:3])}: the description is that of a different model"
        )
    return weights


def build_model_nodes(
    heads: list[int], *, attention_dropout: float = 0.0, endpoint: bool = False, **model: Any
) -> dict[str, Any]:
    """The nodes `model`, `position` and `attention` of a Transformer with multi-head attention.

    Args:
        heads: numbers of heads of encoder and decoder.
        endpoint: option of `Sinusoidal`.
        model: options of the model, as in conf/model/transformer.yaml.
    """
    shared = {
        "name": "multihead",
        "score": "scaled_dot",
        "kernel": "auto",
        "project": True,
        "bias": True,
        "dropout": attention_dropout,
    }
    counts = zip(("encoder", "decoder", "cross"), [*heads, heads[-1]], strict=True)
    attention = {role: {**shared, "num_heads": n, "num_kv_heads": n} for role, n in counts}
    described = {
        "name": "transformer",
        "num_heads": heads[0],
        "project_scores": True,
        "norm": "layernorm",
        "norm_eps": None,
        "attention_dropout": attention_dropout,
        "word_dropout": 0.0,
        "zero_start": False,
        **model,
    }
    position = {"name": "sinusoidal", "endpoint": endpoint}
    return {"model": described, "position": position, "attention": attention}


def build_other_nodes(
    languages: Sequence[str | None], max_length: int, beams: int, penalty: Any
) -> dict[str, Any]:
    """The nodes `decode` and `data`. Raises: DataError if the length penalty is not a number."""
    if not isinstance(penalty, int | float):
        raise DataError(f"length_penalty={shorten(penalty)} should be a number")
    beam = {"name": "beam", "beam_size": beams, "length_penalty": float(penalty)}
    search = {"name": "greedy"} if beams == 1 else beam
    source, target = languages
    data = {"source": source or "source", "target": target or "target", "max_length": max_length}
    return {"decode": {**search, "length_ratio": 2.0, "length_extra": 20}, "data": data}


def read_integer(
    config: Mapping[str, Any], name: str, at: str, low: int, high: int, default: int | None = None
) -> int:
    """A whole number from another program's configuration.

    Args:
        at: file, for messages.

    Raises: DataError if the value is not a whole number from `low` to `high`.
    """
    value = default if config.get(name) is None else config[name]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise DataError(
            f"{at}: {name}={shorten(value)} should be a whole number from {low:,} to {high:,}"
        )
    return value


def shorten(value: Any) -> str:
    """A value as text for a message; only the type of a list or mapping, which may be long."""
    plain = isinstance(value, str | int | float | None)
    return f"{value!r:.60}" if plain else f"a {type(value).__name__}"


def build_side_tokenizer(side: SideVocabulary, rows: VocabularyMap) -> Tokenizer:
    """The tokenizer of the source or target. Language codes such as `>>fr<<` become tags: `<tag
    fr>`.
    """
    codes = [name for name in rows.names if re.fullmatch(r">>[^<>]+<<", name)]
    tags = side.tags or {name: TAG.format(name[2:-2]) for name in codes}
    return sentencepiece.build_tokenizer(side.model, rows.names, tags, side.merges)


def check_numbering(ids: Mapping[str, Any], where: str) -> Mapping[str, int]:
    """Check the ids of a vocabulary, and return them.

    Raises: DataError unless the ids are 0, 1, 2, ..., and `</s>` and `<unk>` are present.
    """
    values = sorted(i for i in ids.values() if type(i) is int)
    if values != list(range(len(ids))):
        raise DataError(f"{where} should number its pieces 0, 1, 2, ... without gaps")
    if lacking := [NAMES[symbol] for symbol in (EOS, UNK) if NAMES[symbol] not in ids]:
        raise DataError(f"{where} has no {' and no '.join(lacking)}")
    return ids


def read_yaml_ids(folder: Folder, name: str) -> Mapping[str, int]:
    """The ids in a `vocab.yml` of Marian, which has a line `piece: id` for each piece.

    A piece is always taken literally, even if YAML gives it another meaning (`no`, `~` and `1` are
    pieces).

    Raises: DataError if the file has another format, or if a piece has two ids.
    """
    import yaml  # type: ignore[import-untyped]

    path = folder.find(name)
    # libyaml's loader, if it is installed, is 10 times faster.
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
            raise DataError(f"{line}: expected `piece: id`, with a whole number as id")
        if key.value in ids:
            raise DataError(f"{line}: {key.value!r:.60} has an id already, {ids[key.value]}")
        ids[key.value] = int(value.value)
    return check_numbering(ids, str(path))
