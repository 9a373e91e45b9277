"""`seq2seq score` and `Translator.score`."""

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.commands import SENTENCES, Command, refused
from helpers.tiny_runs import demo_lines, demo_run, metrics

from seq2seq.base.symbols import BOS, EOS
from seq2seq.training.loss import cross_entropy
from seq2seq.translation.translator import Translator

REFERENCES = demo_lines("test", "en", 12)


@pytest.fixture
def translator(run: Path) -> Translator:
    return Translator.load(run, device="cpu")


def negative_log_likelihood(translator: Translator, source: str, target: str) -> float:
    """As in training, for one pair."""
    source_ids, target_ids = (
        side.encode_batch([text])[0]
        for side, text in ((translator.source, source), (translator.target, target))
    )
    with torch.no_grad():
        hidden = translator.model(
            torch.tensor([[*source_ids, EOS]]), torch.tensor([[BOS, *target_ids]])
        ).hidden[0]
        labels = torch.tensor([*target_ids, EOS])
        return cross_entropy(hidden, translator.model.embeddings.output, labels).nll.item()


def test_a_score_is_the_negative_training_loss(translator: Translator) -> None:
    scores = translator.score(SENTENCES, REFERENCES)
    for score, *pair in zip(scores, SENTENCES, REFERENCES, strict=True):
        expected = -negative_log_likelihood(translator, *pair)
        assert score.log_probability == pytest.approx(expected, rel=1e-5)
        assert sum(value for _, value in score.tokens) == pytest.approx(expected, rel=1e-5)
        pieces = translator.target.pieces(pair[1])
        assert [piece for piece, _ in score.tokens] == [*pieces, "</s>"]


def test_the_validation_loss_is_the_mean_over_the_pieces_of_all_scores(
    translator: Translator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = demo_run(tmp_path_factory.getbasetemp())
    scores = translator.score(demo_lines("valid", "de", 40), demo_lines("valid", "en", 40))
    total = sum(score.log_probability or math.nan for score in scores)
    mean = -total / sum(len(score.tokens) for score in scores)
    bleu, losses = metrics(folder, "valid/bleu"), metrics(folder, "valid/loss")
    assert mean == pytest.approx(losses[bleu.index(max(bleu))], rel=1e-4)


def test_scores_do_not_depend_on_the_window(translator: Translator) -> None:
    pairs = list(zip(SENTENCES, REFERENCES, strict=True))
    expected = [s.log_probability for s in translator.score(SENTENCES, REFERENCES)]
    read = iter(pairs)
    scores = translator.scores(read, look_ahead=5)
    assert next(scores).log_probability == pytest.approx(expected[0], rel=1e-4)
    assert len(list(read)) == len(pairs) - 5
    windowed = [s.log_probability for s in translator.scores(pairs, look_ahead=5)]
    assert windowed == pytest.approx(expected, rel=1e-4)


def test_sources_and_targets_of_different_counts_cannot_be_scored(translator: Translator) -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        translator.score(["Ja.", "Nein."], ["Yes."])


def rows(lines: list[str]) -> list[dict[str, Any]]:
    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return [json.loads(line, parse_constant=no_constant) for line in lines]


def test_a_line_is_printed_for_each_pair_in_order(
    seq2seq: Command, translator: Translator, run: Path, test_set: tuple[Path, Path]
) -> None:
    expected = translator.score(SENTENCES, REFERENCES)
    plain, long = seq2seq("score", run, *test_set), seq2seq("score", run, *test_set, "--tokens")
    assert (plain.code, long.code) == (0, 0)
    for row, more, score in zip(rows(plain.lines), rows(long.lines), expected, strict=True):
        assert row == {"log_probability": score.log_probability, "pieces": len(score.tokens)}
        assert more == {**row, "tokens": [list(token) for token in score.tokens]}
    total = sum(score.log_probability or math.nan for score in expected)
    pieces = sum(len(score.tokens) for score in expected)
    words = f"perplexity {math.exp(-total / pieces):.4g} per piece, {pieces} pieces"
    assert plain.err.startswith(words) and plain.err.endswith(" of 12 of 12 pairs\n")


def test_pairs_that_cannot_be_scored_are_null_with_a_reason(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    source, reference = tmp_path / "a.de", tmp_path / "a.en"
    source.write_text(f"Ja.\n\nJa.\n{'x ' * 500}\nJa.\nJa.\u2028Ja.\n", encoding="utf-8")
    reference.write_text(f"Yes.\nYes.\n \t\nYes.\n{'x ' * 500}\nYes.\n", encoding="utf-8")
    ended = seq2seq("score", run, source, reference, "--tokens")
    assert ended.code == 1
    assert [row["log_probability"] is None for row in rows(ended.lines)] == [
        *(False, True, True, True, True, False)
    ]
    reasons = [row["reason"] for row in rows(ended.lines)[1:5]]
    assert reasons[:2] == ["the source is empty", "the target is empty"]
    for side, reason in zip(("source", "target"), reasons[2:], strict=True):
        words = rf"the {side} has \d+ pieces; in training none had more than 128"
        assert re.fullmatch(words, reason)
    assert ended.err.endswith(" of 2 of 6 pairs\n")


def test_files_that_do_not_match_are_refused_before_anything_is_scored(
    seq2seq: Command, tmp_path: Path, test_set: tuple[Path, Path]
) -> None:
    source, reference = test_set
    reference.write_text("Yes.\n", encoding="utf-8")
    message = refused(seq2seq("score", tmp_path / "no model", source, reference))
    assert f"{source} has 12 line(s), {reference} 1." in message
    assert "scoring shifted pairs" in message
    reference.write_bytes(b"Yes.\n\xff\n")
    assert "line 2, byte 1" in refused(seq2seq("score", tmp_path, source, reference))


def test_without_a_pair_that_can_be_scored_there_is_no_perplexity(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "empty.de"
    path.write_text("\n\n", encoding="utf-8")
    ended = seq2seq("score", run, path, path)
    assert (ended.code, ended.err) == (1, "no perplexity of 0 of 2 pairs\n")
    assert len(ended.lines) == 2


def test_interrupted_scores_are_completed_to_the_same_bytes(
    seq2seq: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2seq.cli.score.AHEAD", 4)
    texts = []
    for name, lines in (("source", SENTENCES), ("reference", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        texts.append(tmp_path / name)
    output, ledger = tmp_path / "scores.jsonl", tmp_path / "scores.json"
    whole = seq2seq("score", run, *texts, "-o", output)
    expected, described = output.read_bytes(), json.loads(ledger.read_text())
    assert expected.count(b"\n") == len(SENTENCES)
    assert described["outputs"][0]["sha256"] == hashlib.sha256(expected).hexdigest()
    assert described["models"] == [str(run)]
    for kept in (0, 30, len(expected) // 2, len(expected)):
        output.write_bytes(expected[:kept])
        again = seq2seq("score", run, *texts, "-o", output)
        assert (output.read_bytes(), again.err) == (expected, whole.err)
    output.write_bytes(bytes(30) + b"\n" + expected[expected.index(b"\n") + 1 :])
    words = refused(seq2seq("score", run, *texts, "-o", output))
    assert f"{output}, line 1: it is damaged" in words
    output.write_bytes(expected)
    for others in ((*texts, "--tokens"), (*texts, "--tag", "x"), texts[::-1]):
        assert "holds something else" in refused(seq2seq("score", run, *others, "-o", output))
    ledger.unlink()
    ended = seq2seq("score", run, *texts, "-o", output)
    assert f"or {ledger}, which describes them, is missing" in refused(ended)
    assert output.read_bytes() == expected
    assert output.read_bytes() == expected
    assert "should end with .jsonl" in refused(seq2seq("score", run, *texts, "-o", tmp_path / "a"))
