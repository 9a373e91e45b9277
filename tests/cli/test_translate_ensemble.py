"""Several models as one: `--with` of `translate`, `evaluate` and `score`, and from Python."""

import json
import math
from pathlib import Path

import pytest
import torch
from helpers.commands import SENTENCES, Command, refused
from helpers.tiny_runs import (
    TINY_MODEL,
    demo_lines,
    save_model,
    tiny_overrides,
    tokenizer,
    train_again,
)

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.text.tokenization.bpe import ByteLevelBPE
from seq2seq.translation.translator import Translator

REFERENCES = demo_lines("test", "en", 12)


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recurrent model with the pieces of the run that the tests share."""
    folder, base = tmp_path_factory.mktemp("rnn"), tmp_path_factory.getbasetemp()
    plain = [word for word in tiny_overrides(base) if word not in TINY_MODEL]
    train_again(
        folder,
        *(*plain, "model=rnn", "model.dim=24", "attn=dot", "optimizer.lr=1e-2"),
        *("trainer.max_steps=30", "trainer.val_check_interval=30"),
    )
    return folder


def probabilities(path: Path) -> list[list[float]]:
    scores = Translator.load(path, "cpu").score(SENTENCES, REFERENCES)
    return [[math.exp(value) for _, value in score.tokens] for score in scores]


def test_ensemble_scores_are_means_of_the_probabilities_of_members(
    seq2seq: Command, run: Path, other: Path, test_set: tuple[Path, Path]
) -> None:
    ended = seq2seq("score", run, "--with", other, "--weights", "1,3", *test_set, "--tokens")
    rows = [json.loads(line) for line in ended.lines]
    of_both = zip(probabilities(run), probabilities(other), rows, strict=True)
    for mine, theirs, row in of_both:
        mean = [math.log(0.25 * p + 0.75 * q) for p, q in zip(mine, theirs, strict=True)]
        assert [value for _, value in row["tokens"]] == pytest.approx(mean, abs=1e-4)
        assert row["log_probability"] == pytest.approx(sum(mean), rel=1e-4)


def test_the_command_line_translates_with_several_models_as_python_does(
    seq2seq: Command, run: Path, other: Path
) -> None:
    ensemble = Translator.ensemble([run, other], weights=[1, 2], mean="log-probabilities")
    expected = ensemble.translate(SENTENCES)
    typed = "--with", other, "--weights", "1,2", "--mean", "log-probabilities"
    assert seq2seq("translate", run, *typed, *SENTENCES).lines == expected
    assert seq2seq("translate", run, *SENTENCES, *typed, "--cache", "paged").lines == expected
    alone = [Translator.load(path).translate(SENTENCES) for path in (run, other)]
    assert expected not in alone


def test_no_models_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one model"):
        Translator.ensemble([])


def test_a_model_with_itself_translates_as_alone(seq2seq: Command, run: Path) -> None:
    alone = seq2seq("translate", run, *SENTENCES)
    twice = "--with", run, "--with", run
    assert seq2seq("translate", run, *twice, *SENTENCES).lines == alone.lines
    linear = "--mean", "probabilities", "--weights", "1,1,5"
    assert seq2seq("translate", run, *twice, *linear, *SENTENCES).lines == alone.lines


@pytest.mark.slow
def test_an_ensemble_translates_in_several_processes(
    seq2seq: Command, run: Path, other: Path
) -> None:
    stdin = "\n".join(SENTENCES).encode()
    here = seq2seq("translate", run, "--with", other, stdin=stdin)
    assert here.code == 0
    there = seq2seq("translate", run, "--with", other, "--workers", 2, stdin=stdin)
    assert there.lines == here.lines


def test_an_ensemble_is_evaluated_as_one_system(
    seq2seq: Command, run: Path, other: Path, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    written = tmp_path / "out.en"
    typed = "--with", other, "--json", "--metrics", "bleu", "--resamples", 0
    ended = seq2seq("evaluate", run, *typed, *test_set, "-o", written)
    assert json.loads(ended.out)["path"] == f"{run} + {other}"
    expected = Translator.ensemble([run, other]).translate(SENTENCES)
    assert written.read_text(encoding="utf-8").splitlines() == expected
    beside = seq2seq("evaluate", run, written, *typed, *test_set)
    paths = [system["path"] for system in json.loads(beside.out)["systems"]]
    assert paths == [f"{run} + {other}", str(written)]


def test_several_models_and_an_ensemble_are_not_evaluated_at_once(
    seq2seq: Command, run: Path, other: Path, test_set: tuple[Path, Path]
) -> None:
    message = refused(seq2seq("evaluate", run, other, "--with", run, *test_set))
    assert "--with joins models to one system, and there are 2 PATHs of models" in message


def test_the_training_length_is_the_shortest_of_all_members(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("long.ckpt", "short.ckpt")]
    for path in paths:
        save_model(path, *TINY_MODEL)
    content = torch.load(paths[1], weights_only=True)
    content["seq2seq"]["config"]["data"]["max_length"] = 9
    torch.save(content, paths[1])
    ensemble = Translator.ensemble(paths)
    (score,) = ensemble.score(["Ein sehr langer Satz."], ["One."])
    assert score.reason is not None and "in training none had more than 9" in score.reason
    assert checkpoint.read(paths[0]).config["data"]["max_length"] == 128


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("--weights", "1,1"), "--weights is for several models: add --with PATH"),
        (("--mean", "probabilities"), "--mean is for several models: add --with PATH"),
        (("--with", "{run}", "--weights", "1"), "1 weight(s) [1] for 2 models: give one for each"),
        (("--with", "{run}", "--weights=-1,2"), "the weight -1 of a model should be between"),
        (("--with", "nowhere"), "there is no nowhere: give a .ckpt file or the folder of a run"),
    ],
)
def test_invalid_options_of_ensembles_are_refused(
    seq2seq: Command, run: Path, typed: tuple[str, ...], message: str
) -> None:
    given = [word.format(run=run) for word in typed]
    assert message in refused(seq2seq("translate", run, "Ja.", *given))


def test_weights_are_numbers(seq2seq: Command, run: Path) -> None:
    message = refused(seq2seq("translate", run, "Ja.", "--with", run, "--weights", "1;2"))
    assert "'1;2' should be numbers with commas: 0.7,0.3" in message


def test_no_model_is_overwritten(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    save_model(tmp_path / "tiny.ckpt", *TINY_MODEL)
    path = tmp_path / "tiny.ckpt"
    before = path.read_bytes()
    typed = "--with", path, "-o", path
    assert "which is read" in refused(seq2seq("translate", run, "Ja.", *typed))
    assert path.read_bytes() == before


def test_models_with_other_pieces_are_refused(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "tiny.ckpt"
    save_model(path, *TINY_MODEL)
    message = refused(seq2seq("translate", run, "Ja.", "--with", path))
    assert (
        f"{path} cannot be joined with {run}: the source pieces differ: 300 instead of" in message
    )
    assert "with the same options of data and tokenizer" in message


def test_the_message_says_how_pieces_of_models_differ(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.ckpt", "two.ckpt")]
    mine = tokenizer().to_json()
    lines = demo_lines("valid", "en", 100)
    theirs = ByteLevelBPE(vocab_size=300).train(lines).to_json()
    for other, message in (
        (theirs, r"the target pieces differ: number 2\d\d is '\S+' instead of '\S+'"),
        (
            mine.replace('"normalizer":null', '"normalizer":{"type":"NFC"}'),
            "the target pieces differ: they have the same names, but text is split into them by",
        ),
    ):
        assert other != mine
        save_model(paths[0], *TINY_MODEL)
        save_model(paths[1], *TINY_MODEL)
        content = torch.load(paths[1], weights_only=True)
        content["seq2seq"]["tokenizer"]["target"] = other
        torch.save(content, paths[1])
        with pytest.raises(ConfigError, match=message):
            Translator.ensemble(paths)


def test_a_model_of_the_other_direction_is_refused(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("there.ckpt", "back.ckpt")]
    for path in paths:
        save_model(path, *TINY_MODEL)
    content = torch.load(paths[1], weights_only=True)
    content["seq2seq"]["config"]["data"].update(source="en", target="de")
    torch.save(content, paths[1])
    with pytest.raises(ConfigError, match="it translates in the other direction"):
        Translator.ensemble(paths)


def test_an_ensemble_has_no_alignment(run: Path) -> None:
    with pytest.raises(ConfigError, match="align with one of the models"):
        Translator.ensemble([run, run]).align("Ja.", "Yes.")
