"""Corpus scores of translations against references, by sacreBLEU, on detokenised text."""

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU

from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import DEFAULT, ORDER, bleu, build_metrics, find_metrics
from seq2seq.evaluation.scores import CorpusScore, corpus_scores


def score(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str | None = None
) -> list[CorpusScore]:
    """BLEU, chrF and TER, in this order, of a whole corpus.

    Args:
        hypotheses: one translation a sentence, detokenised.
        references: the expected translations in the same order, detokenised.
        language: the target language as a code (`de`, `zh`, `zh-Hans`). It chooses how BLEU finds
            words: sacreBLEU's `zh` for Chinese, characters for other languages that put no spaces
            between words, else 13a. TER counts Chinese characters one by one, also in
            Japanese, but not kana.

    Raises: DataError if the counts differ or there is no sentence.
    Source: Papineni et al. 2002 (P02-1040); Popovic 2015 (W15-3049); Snover et al. 2006
        (2006.amta-papers.25); Post 2018, arXiv:1804.08771.
    """
    _check_counts(hypotheses, references)
    metrics = build_metrics(find_metrics(DEFAULT), [references], language)
    return corpus_scores(hypotheses, metrics)


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str | None = None
) -> list[int]:
    """The ten counts that BLEU is computed from: those of two corpora add up to those of both.

    Returns: matched n-grams for n = 1..4, n-grams of the hypotheses for n = 1..4, words of the
        hypotheses, words of the references. No sentences give ten zeros.
    Raises: DataError if the counts of sentences differ.
    """
    _check_counts(hypotheses, references)
    if not hypotheses:
        return [0] * (2 * ORDER + 2)
    result = bleu(language).corpus_score(hypotheses, [references])
    return [
        int(count) for count in (*result.counts, *result.totals, result.sys_len, result.ref_len)
    ]


def bleu_from_statistics(statistics: Sequence[float]) -> float:
    """Corpus BLEU from summed `bleu_statistics`, equal to `score` on all the sentences at once.

    Raises: ValueError unless there are ten counts.
    """
    if len(statistics) != 2 * ORDER + 2:
        raise ValueError(f"{len(statistics)} counts; expected {2 * ORDER + 2} from bleu_statistics")
    counts = [int(count) for count in statistics]
    return BLEU.compute_bleu(
        correct=counts[:ORDER],
        total=counts[ORDER : 2 * ORDER],
        sys_len=counts[-2],
        ref_len=counts[-1],
        smooth_method="exp",
        max_ngram_order=ORDER,
    ).score


def _check_counts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} translations cannot be compared with {len(references)} references. "
            "Give one line of each for every sentence, empty lines included."
        )
