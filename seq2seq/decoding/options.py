"""The options of searches and engines, without torch so that the command line starts quickly."""

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from seq2seq.base.errors import ConfigError
from seq2seq.base.options import option
from seq2seq.base.registry import check_options, check_range

Cache = Literal["auto", "dense", "paged", "static"]
ALL_TOKENS = 2**31 - 1  # more candidates than any vocabulary has


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of every search: lengths, in tokens with eos, and repetition.

    For S source pieces without eos, a translation has at most length_ratio * S + length_extra
    tokens, and at least min_length_ratio * S + min_length_extra.

    Raises: ConfigError for a value out of range.
    """

    length_ratio: float = option(1.5, "maximum pieces per source piece", "R", 0, 1000)
    length_extra: int = option(
        10, "maximum pieces beyond length_ratio, for short sources", "E", 1, 1_000_000
    )
    max_length: int | None = option(
        None, "maximum pieces in any case, the end included; null: no limit", "N", 1, 1_000_000
    )
    min_length_ratio: float = option(0.0, "minimum pieces per source piece", "R", 0, 1000)
    min_length_extra: int = option(
        0, "minimum pieces beyond min_length_ratio; 2: no empty translations", "E", 0, 1_000_000
    )
    no_repeat_ngram: int = option(
        0, "pieces in a row that a translation never repeats; 0: any may repeat", "N", 0, 1000
    )

    # Minimum and maximum of options that are declared without a range, as plug-ins may do.
    ranges: ClassVar[dict[str, tuple[float, float]]] = {}

    def __post_init__(self) -> None:
        check_options(type(self), {f.name: getattr(self, f.name) for f in fields(self)}, "decode")
        for name, (minimum, maximum) in self.ranges.items():
            check_range(f"decode.{name}", getattr(self, name), minimum, maximum=maximum)
        for lower, upper in (
            ("min_length_ratio", "length_ratio"),
            ("min_length_extra", "length_extra"),
            ("min_length_extra", "max_length"),
        ):
            least, most = getattr(self, lower), getattr(self, upper)
            if most is not None and least > most:
                raise ConfigError(
                    f"{lower}={least} should be at most {upper}={most}: "
                    "otherwise some translations could have no length at all"
                )


@dataclass(frozen=True, kw_only=True)
class BeamOptions(SearchOptions):
    """The options of beam search."""

    beam_size: int = option(5, "hypotheses kept at each step; 1 is greedy search", "K", 1, 1000)
    length_penalty: float = option(
        1.0, "exponent of the length that divides a score; 0 favours short translations", "A", 0, 10
    )
    penalty_form: Literal["power", "gnmt"] = option(
        "power", "power: divide by length^penalty | gnmt: by ((5 + length) / 6)^penalty"
    )
    coverage: float = option(
        0.0, "weight of the penalty for unattended source pieces; Wu et al. 2016: 0.2", "B", 0, 100
    )
    coverage_layer: int = option(
        -1, "decoder layer whose attention coverage reads, from 0; -1 is the last", "N"
    )
    patience: float = option(
        1.0, "finished hypotheses that end a search, in beam sizes", "P", 0, 100
    )
    stopping: Literal["score", "count"] = option(
        "score", "score: end when no open hypothesis can still win | count: whatever is open"
    )


@dataclass(frozen=True, kw_only=True)
class DiverseOptions(BeamOptions):
    """The options of diverse beam search."""

    beam_groups: int | None = option(
        None, "groups of beams that avoid each other's pieces; null: one beam each", "G", 1, 1000
    )
    diversity_penalty: float = option(
        0.5, "cost of a piece per earlier beam that has it; 0.2 to 0.8 in the paper", "L", 0, 1000
    )


@dataclass(frozen=True, kw_only=True)
class SampleOptions(SearchOptions):
    """The options of sampling.

    Raises: ConfigError for a value out of range.
    """

    samples: int = option(1, "translations of each source", "N", 1, 1000)
    temperature: float = option(
        1.0, "below 1 favours probable pieces, above 1 rare ones", "T", 0.001, 1000,
        instead="; for the most probable pieces use greedy search: --beam-size 1, or decode=greedy",
    )  # fmt: skip
    top_k: int | None = option(
        None, "draw among this many of the best pieces only; null: all", "K", 1, ALL_TOKENS
    )
    top_p: float = option(
        1.0, "draw among the fewest best pieces of this total probability; 1: all", "P", 1e-6, 1
    )
    epsilon: float = option(0.0, "draw among pieces of at least this probability only", "P", 0, 1)
    min_p: float = option(
        0.0, "draw among pieces at least this many times as probable as the best", "F", 0, 1
    )
    seed: int = option(1, "equal seeds draw equal translations, in any batch", "N", 0, 2**32 - 1)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The options of decoding, whatever the search."""

    cache: Cache = option(
        "auto",
        "dense: whole batches | paged: sentences join as others end | static: they do, and a step "
        "is one CUDA graph | auto: static on a GPU, dense on a CPU",
    )
    rows: int = option(320, "maximum hypotheses decoded at once", "N", 1, 10_000_000)
    pages: int | None = option(
        None, "size of the paged cache; null: `rows` hypotheses of 128 pieces", "N", 1, 10_000_000
    )
    page_size: int | None = option(
        None, "pieces per page; null: 8 on a CPU, 16 on a GPU", "N", 1, 10_000_000
    )
    memory: float = option(
        0.5, "share of a GPU's free memory for the buffers of cache=static", "F", 0.01, 1
    )
    precision: Literal["auto", "float32", "bfloat16", "int8"] = option(
        "auto",
        "float32 | bfloat16 | int8: linear maps only, on a CPU only | auto: bfloat16 on a GPU that "
        "computes with it, else float32",
    )
    workers: int | Literal["auto"] = option(
        "auto", "processes on a CPU; auto: one per core, none for a few sentences", "N"
    )
