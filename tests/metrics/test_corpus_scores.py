"""Scores by name, and their intervals."""

import pytest
from sacrebleu.metrics.bleu import BLEU

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.cli.evaluate import command as evaluate
from seq2seq.metrics.registry import DEFAULT, METRICS, build_metrics, find_metrics
from seq2seq.metrics.scores import check_seed, compare_systems, corpus_scores

HYPOTHESES = ["A cat sat on the mat .", "The dog runs ."]
REFERENCES = ["A cat sat on a mat .", "The dog runs ."]


def test_every_metric_has_a_different_name_and_computes() -> None:
    kinds = find_metrics(list(METRICS))
    assert len({kind.label for kind in kinds}) == len(METRICS)
    metrics = build_metrics(kinds, [REFERENCES])
    scores = corpus_scores(HYPOTHESES, metrics)
    assert [score.name for score in scores] == [kind.label for kind in kinds]
    assert all(score.interval is None for score in scores)


def test_tokenized_bleu_splits_at_spaces_only() -> None:
    metrics = build_metrics(find_metrics(["bleu-tokenized"]), [["a.b c d e f"]], "zh")
    (score,) = corpus_scores(["a.b c d e x"], metrics)
    expected = BLEU(tokenize="none").corpus_score(["a.b c d e x"], [["a.b c d e f"]])
    assert score.value == expected.score
    assert "tok:none" in score.signature


def test_a_system_that_scores_zero_in_some_resamples_has_an_interval() -> None:
    hypotheses = ["#", "The dog runs ."]
    by_name = {name: build_metrics(find_metrics([name]), [REFERENCES]) for name in DEFAULT}
    bare = [next(iter(build_metrics(find_metrics([n]), [REFERENCES]).values())) for n in DEFAULT]
    refused = []
    for name, metric in zip(DEFAULT, bare, strict=True):
        try:
            metric.corpus_score(hypotheses, None, n_bootstrap=50)
        except TypeError:
            refused.append(name)
    assert refused  # sacreBLEU alone; once it does not, `sacrebleu_score` can go
    for metrics in by_name.values():
        (score,) = corpus_scores(hypotheses, metrics, resamples=50)
        assert score.interval is not None
        assert abs(score.interval.mean - score.value) <= 2 * score.interval.half_width


def test_scores_do_not_depend_on_what_was_scored_before() -> None:
    metrics = build_metrics(find_metrics(DEFAULT), [REFERENCES])
    first = corpus_scores(HYPOTHESES, metrics, resamples=10)
    corpus_scores(REFERENCES, metrics)
    assert corpus_scores(HYPOTHESES, metrics, resamples=10) == first


def test_the_seed_of_the_environment_is_obeyed_and_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = build_metrics(find_metrics(["chrf"]), [REFERENCES])
    (one,) = corpus_scores(HYPOTHESES, metrics, resamples=9)
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    (other,) = corpus_scores(HYPOTHESES, metrics, resamples=9)
    assert one.interval and other.interval and "bs:9|seed:7" in other.interval.signature
    assert one.interval.mean != other.interval.mean


def test_an_unknown_metric_is_refused_with_a_list_of_all() -> None:
    with pytest.raises(ConfigError, match="no metric 'comet'.*bleu, chrf, ter, bleu-tokenized"):
        find_metrics(["comet"])


def test_the_help_names_every_metric() -> None:
    assert f"of {', '.join(METRICS)};" in evaluate.CHOICE
    assert f"default {','.join(DEFAULT)}," in evaluate.CHOICE


def test_no_sentence_is_refused() -> None:
    with pytest.raises(DataError, match="no sentence"):
        corpus_scores([], {})


def test_a_seed_that_is_not_a_whole_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for fine in ("7", "none", "None"):
        monkeypatch.setenv("SACREBLEU_SEED", fine)
        check_seed()
    for wrong in ("seven", "-1", "1.5", ""):
        monkeypatch.setenv("SACREBLEU_SEED", wrong)
        with pytest.raises(ConfigError, match=f"SACREBLEU_SEED={wrong} should be a whole number"):
            check_seed()


def test_one_sentence_has_no_interval_and_no_p_value() -> None:
    metrics = build_metrics(find_metrics(["bleu", "chrf", "ter"]), [["A dog."]], "en")
    assert all(s.interval is None for s in corpus_scores(["A cat."], metrics, resamples=50))
    for test in ("bootstrap", "randomization"):
        for comparison in compare_systems(
            {"a": ["A dog."], "b": ["A cat."]}, metrics, test
        ).values():
            assert [(c.p_value, c.interval) for c in comparison.systems] == [(None, None)] * 2
    two = build_metrics(find_metrics(["chrf"]), [["A dog.", "A house."]], "en")
    assert corpus_scores(["A cat.", "A house."], two, resamples=50)[0].interval is not None
