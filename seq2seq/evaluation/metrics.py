"""The scores one can ask for, each a metric of sacreBLEU's kind.

That kind brings intervals by bootstrap, paired tests and signatures to all of them alike.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2seq.errors import ConfigError
from seq2seq.evaluation.languages import is_spaceless, language_code

ORDER = 4  # the longest n-gram that BLEU counts

# All references of a corpus: the first of each sentence, then the second of each, and so on; None
# where a sentence has no further one, which sacreBLEU allows and its types do not say.
References = Sequence[Sequence[str | None]]
Streams = Sequence[Sequence[str]]


class Kind(NamedTuple):
    """A score one can ask for."""

    label: str  # its name in front of the number
    build: Callable[[Streams, str | None], Metric]  # from references and the target language


def bleu(
    language: str | None = None, references: Streams | None = None, tokenize: str | None = None
) -> BLEU:
    """BLEU that finds words as suits the language: sacreBLEU's `zh` for Chinese, characters for
    other languages that put no spaces between words, else 13a.

    Args:
        tokenize: another of sacreBLEU's ways to find words, instead of the language's.
    """
    tokenizer = BLEU.TOKENIZER_DEFAULT
    if language_code(language) == "zh":
        tokenizer = "zh"
    elif is_spaceless(language):
        # 13a would take a whole clause for one word, and sacreBLEU's tokenizers that find words in
        # these languages need a dictionary or a model that has to be installed apart.
        tokenizer = "char"
    # `force` silences the advice to detokenise: `seq2seq.evaluation.looks` gives better.
    return BLEU(
        tokenize=tokenize or tokenizer,
        max_ngram_order=ORDER,
        force=True,
        references=references,
    )


def _ter(references: Streams, language: str | None) -> Metric:
    spaceless = is_spaceless(language)
    return TER(normalized=spaceless, asian_support=spaceless, references=references)


def _exact(references: Streams, language: str | None) -> Metric:
    from seq2seq.evaluation.symbols import ExactMatch

    return ExactMatch(references)


def _symbols(references: Streams, language: str | None) -> Metric:
    from seq2seq.evaluation.symbols import SymbolErrorRate

    return SymbolErrorRate(references)


METRICS = {
    "bleu": Kind("BLEU", lambda references, language: bleu(language, references)),
    "chrf": Kind("chrF", lambda references, language: CHRF(references=references)),
    "ter": Kind("TER", _ter),
    "bleu-tokenized": Kind(
        "BLEU-tokenized", lambda references, _: bleu(None, references, tokenize="none")
    ),
    "exact": Kind("exact", _exact),
    "ser": Kind("SER", _symbols),
}
DEFAULT = ("bleu", "chrf", "ter")


def build_metrics(
    kinds: Sequence[Kind], references: References, language: str | None = None
) -> dict[str, Metric]:
    """The metrics by their labels, with what they need of the references computed once.

    Args:
        language: of the target; see `bleu`.
    """
    streams = cast(Streams, references)
    return {kind.label: kind.build(streams, language) for kind in kinds}


def find_metrics(names: Sequence[str]) -> list[Kind]:
    """The scores of these names, in their order.

    Raises: ConfigError for an unknown name, or one that is given twice.
    """
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise ConfigError(
            f"there is no metric {unknown[0]!r}. Known, as in --metrics {','.join(DEFAULT)}: "
            f"{', '.join(METRICS)}"
        )
    if len(set(names)) < len(names):
        raise ConfigError(f"a metric is given twice in {','.join(names)}: leave one out")
    return [METRICS[name] for name in names]
