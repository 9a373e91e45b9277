"""The metrics by name.

All metrics, including our exact match and symbol error rate, are `Metric` objects of sacreBLEU, so
its bootstrap intervals, paired tests and signatures work for all of them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from sacrebleu.metrics.base import Metric, Score, Signature
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from torchmetrics.functional.text import word_error_rate

from seq2seq.base.errors import ConfigError
from seq2seq.base.plugins import PluginTable
from seq2seq.text.languages import is_spaceless, read_language

ORDER = 4  # length of the longest n-grams that BLEU counts

# All references of a corpus: the first reference of every sentence, then the second of every
# sentence, and so on; None if a sentence has no such reference. sacreBLEU allows None, although its
# types do not.
References = Sequence[Sequence[str | None]]
Streams = Sequence[Sequence[str]]


class MetricKind(NamedTuple):
    """A score that a user can ask for."""

    label: str  # name in the output
    build: Callable[[Streams, str | None], Metric]  # takes references and the target language


def build_bleu(
    language: str | None = None, references: Streams | None = None, tokenize: str | None = None
) -> BLEU:
    """BLEU with a suitable tokenizer for the language: sacreBLEU's `zh` for Chinese characters,
    `char` for other languages without spaces between words, otherwise 13a.

    Args:
        tokenize: sacreBLEU's name of a tokenizer to use instead.
    """
    tokenizer = BLEU.TOKENIZER_DEFAULT
    if read_language(language).script in ("Hans", "Hant", "Hani"):
        tokenizer = "zh"
    elif is_spaceless(language):
        # 13a would treat a whole clause as one word, and sacreBLEU's tokenizers for these languages
        # need a dictionary or a model that is installed separately.
        tokenizer = "char"
    # `force` silences the advice to detokenise, as `seq2seq.metrics.text_checks` gives better.
    return BLEU(
        tokenize=tokenize or tokenizer, max_ngram_order=ORDER, force=True, references=references
    )


def build_ter(references: Streams, language: str | None) -> Metric:
    spaceless = is_spaceless(language)
    return TER(normalized=spaceless, asian_support=spaceless, references=references)


class SymbolSignature(Signature):
    """A signature that includes the unit of comparison."""

    def __init__(self, args: dict[str, Any]):
        super().__init__(args)
        self.info["unit"] = args["unit"]
        self.info["case"] = "mixed"


class SymbolMetric(Metric):
    """Base class of metrics that compare each sentence with its nearest reference.

    Attributes:
        label: name in the output.
        unit: unit of comparison, for the signature.
    """

    _SIGNATURE_TYPE = SymbolSignature
    label: str
    unit: str

    def __init__(self, references: Sequence[Sequence[str]]):
        initialize: Callable[[], None] = super().__init__  # sacreBLEU's constructor is untyped
        initialize()
        self.unit = type(self).unit  # the signature reads this attribute
        self._ref_cache = self._cache_references(references)

    @classmethod
    def kind(cls) -> MetricKind:
        """The metric as an entry of the table, under its own label."""
        return MetricKind(cls.label, lambda references, _: cls(references))

    def _preprocess_segment(self, sent: str) -> str:
        return " ".join(sent.split())

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": refs}

    def _aggregate_and_compute(self, stats: list[list[int]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: list[Any]) -> Score:
        part, whole = stats
        if not whole:  # the references are empty, so any output is wrong
            return Score(self.label, 100.0 if part else 0.0)
        return Score(self.label, 100 * float(part) / float(whole))


class ExactMatch(SymbolMetric):
    """The percentage of outputs that equal a reference, ignoring differences in white space."""

    label = "exact"
    unit = "line"

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        return [int(hypothesis in ref_kwargs["references"]), 1]


class SymbolErrorRate(SymbolMetric):
    """Insertions, deletions and substitutions per 100 symbols of the references.

    If there are several references, the one with the fewest edits counts, and the first one in a
    tie. The rate can exceed 100.
    """

    label = "SER"
    unit = "symbol"

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        pairs = [(count_edits(hypothesis, r), len(r.split())) for r in ref_kwargs["references"]]
        nearest = min(pairs, key=lambda pair: pair[0])
        return list(nearest)


def count_edits(hypothesis: str, reference: str) -> int:
    """The smallest number of insertions, deletions and substitutions that make the texts equal."""
    length = len(reference.split())
    if not length:
        return len(hypothesis.split())
    return round(word_error_rate(hypothesis, reference).item() * length)


METRICS: PluginTable[MetricKind] = PluginTable(
    "metric",
    {
        "bleu": MetricKind("BLEU", lambda references, language: build_bleu(language, references)),
        "chrf": MetricKind("chrF", lambda references, language: CHRF(references=references)),
        "ter": MetricKind("TER", build_ter),
        "bleu-tokenized": MetricKind(
            "BLEU-tokenized", lambda references, _: build_bleu(None, references, tokenize="none")
        ),
        "exact": ExactMatch.kind(),
        "ser": SymbolErrorRate.kind(),
    },
    lambda entry: isinstance(entry, MetricKind),
    "a seq2seq.metrics.registry.MetricKind",
)
DEFAULT = ("bleu", "chrf", "ter")


def build_metrics(
    kinds: Sequence[MetricKind], references: References, language: str | None = None
) -> dict[str, Metric]:
    """Build metrics by their labels, which compute statistics of the references only once.

    Args:
        language: target language; see `build_bleu`.
    """
    streams = cast(Streams, references)
    return {kind.label: kind.build(streams, language) for kind in kinds}


def find_metrics(names: Sequence[str]) -> list[MetricKind]:
    """The metrics with these names, in the same order.

    Raises: ConfigError if a name is unknown or occurs twice, and as `PluginTable.find`.
    """
    unknown = [name for name in names if name not in METRICS]
    plugins = METRICS.list_names() - {*METRICS} if unknown else set()
    if missing := [name for name in unknown if name not in plugins]:
        raise ConfigError(
            f"there is no metric {missing[0]!r}. Known, as in --metrics {','.join(DEFAULT)}: "
            f"{', '.join((*METRICS, *sorted(plugins)))}"
        )
    if len(set(names)) < len(names):
        raise ConfigError(f"a metric is given twice in {','.join(names)}: leave one out")
    kinds = [METRICS.find(name) for name in names]
    labels = [kind.label for kind in kinds]
    if repeated := [label for label in labels if labels.count(label) > 1]:
        raise ConfigError(f"two of {','.join(names)} are printed as {repeated[0]}: leave one out")
    return kinds
