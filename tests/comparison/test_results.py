"""Results on a test set: scores of all runs, differences, lengths, and errors of alignment."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers.tiny_runs import demo_lines, demo_run
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from seq2seq.alignment.choice import best_known_choice
from seq2seq.alignment.links import LinkCounts
from seq2seq.base.errors import DataError
from seq2seq.comparison import results, training
from seq2seq.comparison.results import add_results, divide_by_length, judge_groups, read_test
from seq2seq.comparison.rows import Mean, MetricResult, Row, join_names, verdicts
from seq2seq.comparison.runs import Group, TrainedRun, in_order, name_role, read_run
from seq2seq.comparison.significance import MeanDifference
from seq2seq.metrics.registry import build_metrics, find_metrics
from seq2seq.translation.translator import Translator

RANDOM = np.random.default_rng(5)


def rows_of(count: int) -> list[dict[str, MetricResult]]:
    return [{} for _ in range(count)]


def share(counts: np.ndarray) -> float:
    return 100 * float(counts[0] / counts[1])


def test_scores_are_means_over_seeds_and_differences_to_the_first_row() -> None:
    right = (RANDOM.random((3, 2, 400)) < [[[0.2]], [[0.25]], [[0.6]]]).astype(float)
    counts = [np.stack([each, np.ones_like(each)], -1) for each in right]
    found = rows_of(3)
    parts = {"all": np.arange(400), "last": np.arange(300, 400)}
    add_results(found, "exact", counts, share, parts)
    for row, each in zip(found, right, strict=True):
        assert row["exact"].mean.value == pytest.approx(100 * each.mean())
        deviation = (100 * each.mean(1)).std(ddof=1)
        assert row["exact"].mean.deviation == pytest.approx(deviation)
        assert row["exact"].lengths["last"] == pytest.approx(100 * each[:, 300:].mean())
    assert found[0]["exact"].difference is None
    last = found[2]["exact"].difference
    assert last is not None and last.p_value < 0.05
    assert last.value == pytest.approx(100 * (right[2].mean() - right[0].mean()))
    # Alone, the difference has half of the p-value that it has among two (Holm).
    alone = rows_of(2)
    add_results(alone, "exact", [counts[0], counts[2]], share, parts)
    single = alone[1]["exact"].difference
    assert single is not None and last.p_value == pytest.approx(min(1, 2 * single.p_value))


def test_a_mechanism_without_weights_has_no_error_of_alignment() -> None:
    found, counts = rows_of(3), np.ones((1, 5, 2))
    add_results(found, "AER", [counts, None, counts], share, {})
    assert [set(row) for row in found] == [{"AER"}, set(), {"AER"}]
    first_missing = rows_of(2)
    add_results(first_missing, "AER", [None, counts], share, {})
    assert first_missing[1]["AER"].difference is None


def test_sources_are_divided_into_short_medium_and_long_ones() -> None:
    sources = ["a b c", "a", "a b", "a b c d e", "a b c d", "a b c d e f"]
    parts = divide_by_length(sources, "de")
    assert {name: set(rows) for name, rows in parts.items()} == {
        "1-2 words": {1, 2},
        "3-4 words": {0, 4},
        "5-6 words": {3, 5},
    }
    assert list(divide_by_length(["一二", "一 二三"], "zh")) == ["2-2 characters", "3-3 characters"]


@pytest.fixture
def group(base: Path) -> Group:
    return Group("mha", [read_run(demo_run(base))])


@pytest.fixture
def test_files(tmp_path: Path) -> tuple[Path, Path]:
    files = tmp_path / "test.de", tmp_path / "test.en"
    for file in files:
        lines = demo_lines("test", file.suffix[1:], 12)
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


def test_scores_are_those_of_sacrebleu(
    group: Group, test_files: tuple[Path, Path], tmp_path: Path
) -> None:
    test = read_test(test_files, None, {})
    (found,) = judge_groups([group], test, None, tmp_path / "cache")
    assert list(found) == ["BLEU", "chrF"]
    (kept,) = (tmp_path / "cache").iterdir()
    lines = kept.read_text(encoding="utf-8").split("\n")[:-1]
    assert lines == Translator.load(group.runs[0].folder, "cpu").translate(
        demo_lines("test", "de", 12)
    )
    references = demo_lines("test", "en", 12)
    for label, metric in (("BLEU", BLEU()), ("chrF", CHRF())):
        expected = metric.corpus_score(lines, [references]).score
        assert found[label].mean.value == pytest.approx(expected)
        assert found[label].interval is not None  # the run is the only one


def test_every_metric_is_a_function_of_summed_counts() -> None:
    """Score functions give the scores of sacreBLEU for all of our metrics."""
    hypotheses = ["a b c d e", "x", "the cat sat", ""]
    references = ["a b c d", "y", "the cat sat", "no"]
    for name in ("bleu", "chrf", "ter", "exact", "ser"):
        ((label, metric),) = build_metrics(find_metrics((name,)), [references], "en").items()
        counts = np.array(metric._extract_corpus_statistics(hypotheses, None), float)
        found = results.score_function(metric)(counts.sum(0))
        assert found == pytest.approx(float(metric.corpus_score(hypotheses, None).score)), label


def test_the_error_of_alignment_is_that_of_the_links_of_the_references(
    group: Group, test_files: tuple[Path, Path], tmp_path: Path
) -> None:
    gold = tmp_path / "gold"
    gold.write_text("".join(f"{line}\n" for line in ["0-0 1-1"] * 12))
    test = read_test(test_files, gold, {})
    (found,) = judge_groups([group], test, ("chrf",), tmp_path / "cache")
    assert list(found) == ["chrF", "AER"]
    translator = Translator.load(group.runs[0].folder, "cpu")
    alignments = [each for each in translator.alignments(test.pairs) if each is not None]
    path = group.runs[0].folder / "best.ckpt"
    choice = best_known_choice(path, translator.config, translator.shape[0])
    sure = {(0, 0), (1, 1)}
    counts = [LinkCounts.of(each.links(choice), sure, sure) for each in alignments]
    assert found["AER"].mean.value == pytest.approx(LinkCounts.total(counts).aer)


def test_the_test_set_is_that_of_the_runs_unless_another_is_given(
    base: Path, test_files: tuple[Path, Path], tmp_path: Path
) -> None:
    data = read_run(demo_run(base)).saved.config["data"]
    assert len(read_test(None, None, data).pairs) == 40  # valid, since there is no test set
    assert len(read_test(test_files, None, data).pairs) == 12
    with pytest.raises(DataError, match="Or give a test set: --test SOURCE TARGET"):
        read_test(None, None, {**data, "valid": str(tmp_path / "moved")})
    (tmp_path / "gold").write_text("0-0\n")
    with pytest.raises(DataError, match="1 lines of links for 12 pairs"):
        read_test(test_files, tmp_path / "gold", data)


MHA = {"name": "mha", "seeds": 3}
NOTHING = dict.fromkeys(Row._fields)


def verdict(
    label: str, difference: MeanDifference | None, scores: tuple[float, float] = (30.0, 28.5)
) -> str:
    rows = [
        Row(**{**NOTHING, "name": name, "seeds": 3, "tests": {label: result}})  # type: ignore[arg-type]
        for name, result in (
            ("mha", MetricResult(Mean(scores[0], 1.0), None, None, {})),
            ("additive", MetricResult(Mean(scores[1], 1.0), None, difference, {})),
        )
    ]
    (sentence,) = verdicts(rows)
    return sentence


def test_the_answer_is_a_sentence() -> None:
    assert verdict("BLEU", MeanDifference(-1.5, -2.7, -0.3, 0.02)) == (
        "mha is better than additive by 1.5 BLEU (95 % interval 0.3 to 2.7, p = 0.02, 3 seeds)."
    )
    assert verdict("BLEU", MeanDifference(1.5, 0.3, 2.7, 0.0002)).startswith(
        "additive is better than mha by 1.5 BLEU (95 % interval 0.3 to 2.7, p < 0.001,"
    )
    # Fewer errors are better.
    assert verdict("SER", MeanDifference(1.5, 0.3, 2.7, 0.02)).startswith("mha is better than add")
    assert verdict("AER", MeanDifference(-0.015, -0.027, -0.003, 0.02), (0.3, 0.285)) == (
        "additive is better than mha by 0.015 AER (95 % interval 0.003 to 0.027, p = 0.02, "
        "3 seeds)."
    )
    assert verdict("BLEU", MeanDifference(-0.01, -1.2, 1.1, 0.9)) == (
        "No difference between additive and mha is shown: 0.0 BLEU (95 % interval -1.2 to 1.1, "
        "p = 0.9, 3 seeds)."
    )
    assert "cannot be compared on a single sentence" in verdict("BLEU", None)


@pytest.mark.parametrize(
    ("label", "scores", "printed"),
    [
        ("BLEU", (0.0, 0.2), "BLEU 0.0 and 0.2"),
        ("exact", (0.4, 0.0), "exact 0.4 and 0.0"),
        ("SER", (99.7, 112.0), "SER 99.7 and 112.0"),
        ("AER", (0.995, 1.0), "AER 0.995 and 1.000"),
    ],
)
def test_models_that_have_learnt_nothing_are_not_compared(
    label: str, scores: tuple[float, float], printed: str
) -> None:
    difference = MeanDifference(0.2, 0.1, 0.3, 0.001)
    assert verdict(label, difference, scores) == (
        f"mha and additive cannot be compared: neither has learnt the task ({printed}). Train "
        "longer, with a larger trainer.max_steps."
    )
    learnt = {"BLEU": 5.0, "exact": 5.0, "SER": 60.0, "AER": 0.6}[label]
    assert "is better than" in verdict(label, difference, (scores[0], learnt))


def test_nested_figures_have_joined_names() -> None:
    result = MetricResult(Mean(30.0, None), 1.0, None, {"1-2 words": 9.0})
    assert join_names({"tests": {"BLEU": result}, "seeds": 3}) == {
        "tests_BLEU_mean_value": 30.0,
        "tests_BLEU_interval": 1.0,
        "tests_BLEU_lengths_1-2 words": 9.0,
        "seeds": 3,
    }


def curve(monitor: str, rows: Sequence[tuple[float, float, float]]) -> TrainedRun:
    """A run with these seconds, scores and BLEU."""
    lines = [
        {"step": str(n), "seconds": str(s), f"valid/{monitor}": str(v), "valid/bleu": str(bleu)}
        for n, (s, v, bleu) in enumerate(rows)
    ]
    best = (min if monitor in ("ser", "loss") else max)(
        lines, key=lambda line: float(line[f"valid/{monitor}"])
    )
    return TrainedRun(Path("run"), "mha", [], None, 9, monitor, best, lines)  # type: ignore[arg-type]


def test_the_score_within_a_time_is_that_of_the_best_weights_until_then() -> None:
    rising = curve("bleu", [(10, 5, 5), (20, 9, 9), (30, 8, 8), (40, 12, 12)])
    assert [rising.score_within(s) for s in (5, 10, 30, 99)] == [None, 5, 9, 12]
    falling = curve("ser", [(10, 50, 1), (20, 30, 2), (30, 40, 3), (40, 20, 4)])
    assert [falling.score_within(s) for s in (10, 35, 40)] == [50, 30, 20]
    assert falling.metric == "ser" and falling.seconds == 40
    # With the loss, BLEU of the weights that it chose is shown.
    by_loss = curve("loss", [(10, 5.0, 1), (20, 3.0, 8), (30, 4.0, 9)])
    assert by_loss.metric == "bleu" and by_loss.score == 8
    assert [by_loss.score_within(s) for s in (10, 30)] == [1, 8]


def test_rows_follow_in_the_order_of_their_scores_also_if_less_is_better() -> None:
    groups = [Group(name, [curve("ser", [(1, v, 0)] * 2)]) for name, v in (("a", 9), ("b", 3))]
    groups += [Group("b with a in cross-attention", [curve("ser", [(1, 60, 0), (2, 1, 0)])])]
    for group in groups:
        group.runs[0] = group.runs[0]._replace(preset="gqa")
    names = [group.name for group in in_order(groups, "mha")]
    assert names[0] in ("a", "b") and set(names) == {group.name for group in groups}


def test_a_replaced_role_is_named_in_words() -> None:
    assert name_role("attn@cross_attn=additive") == "with additive in cross-attention"
    assert name_role("attn@encoder_attn=mla") == "with mla in encoder self-attention"
    assert name_role("model.dim=64") == "model.dim=64"


class TrainedJob(training.Job):
    """A job whose result is given."""

    values: Mapping[tuple[str, str | None], float] = {}
    ran: list[str] = []

    @property
    def is_trained(self) -> bool:
        return self.folder.name in self.ran

    @property
    def score(self) -> float:
        return self.values[self.mechanism, self.rate]


def test_each_mechanism_uses_its_best_learning_rate_with_all_seeds(
    monkeypatch: pytest.MonkeyPatch, base: Path
) -> None:
    ran: list[str] = []
    values = {("mha", "1"): 5.0, ("mha", "2"): 7.0, ("gqa", "1"): 6.0, ("gqa", "2"): 4.0}
    monkeypatch.setattr(TrainedJob, "values", values)
    monkeypatch.setattr(TrainedJob, "ran", ran)

    def train_each(jobs: Sequence[training.Job]) -> list[str]:
        ran.extend(job.folder.name for job in jobs)
        return []

    monkeypatch.setattr(training, "train_each", train_each)
    monkeypatch.setattr(training, "describe_trials", lambda job, _: f"{job.mechanism} {job.rate}")
    jobs = [
        TrainedJob(Path(f"{m} {r} {s}"), m, s, r, [], None)  # type: ignore[arg-type]
        for m in ("mha", "gqa")
        for s in ("seed=1", "seed=2", "seed=3")
        for r in ("1", "2")
    ]
    kept, tried, failed = training.train_all(jobs)
    assert [job.folder.name for job in kept] == [
        f"{m} seed={seed}" for m in ("mha 2", "gqa 1") for seed in (1, 2, 3)
    ]
    assert len(ran) == 2 * (2 + 2) and tried == ["mha 2", "gqa 1"] and not failed
    budget = training.describe_budget(jobs)
    assert budget == ("8 runs: 2 mechanisms, 3 seeds, 2 learning rates each, tried with one seed")


def test_a_run_that_diverged_is_the_worst_of_its_trials(base: Path, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"value": float("nan")}))
    job = training.Job(tmp_path, "mha", "seed=1", None, [], None)  # type: ignore[arg-type]
    assert job.score == float("-inf")
