"""Several corpora with tags, from training to translation."""

from pathlib import Path

import pytest
from helpers import commands
from helpers.commands import Command, refused
from helpers.tiny_runs import corpus, metrics, train_tiny

from seq2seq.base.errors import ConfigError
from seq2seq.translation.translator import Translator

seq2seq = commands.seq2seq


@pytest.fixture(scope="module")
def run(base: Path) -> Path:
    """Two corpora of the same sources: the answers of one are always Yes, of the other No."""
    folder = base / "tagged"
    folder.mkdir(exist_ok=True)  # a process may set this up twice, between other files
    for name, answer, part in (
        ("yes", "Yes.\n", "train"),
        ("no", "No.\n", "train"),
        ("valid", "No.\n", "valid"),
    ):
        sources = (corpus(base) / f"{part}.de").read_text(encoding="utf-8")
        (folder / f"{name}.de").write_text(sources, encoding="utf-8")
        (folder / f"{name}.en").write_text(answer * sources.count("\n"), encoding="utf-8")
    paths = ", ".join(f"{n}: {{path: {folder / n}, tag: to-{n}}}" for n in ("yes", "no"))
    train = f"data.train={{{paths}}}"
    valid = f"data.valid={{no: {{path: {folder / 'valid'}, tag: to-no}}}}"
    options = ("trainer.max_steps=60", "optimizer.lr=1e-2", "trainer.val_check_interval=60")
    return train_tiny(base, train, valid, *options)


def test_a_tag_asks_for_translations_as_in_its_corpus(run: Path) -> None:
    sources = ["Das Kind schläft.", "Die Nachbarin bezahlt das Buch."]
    for tag, answer in (("to-yes", "Yes."), ("to-no", "No.")):
        assert Translator.load(run, tag=tag).translate(sources) == [answer, answer]


def test_what_is_scored_with_its_tag_is_scored_as_in_training(run: Path) -> None:
    """The loss of the validation set, whose corpus has that tag, from its scores."""
    base = run.parent
    sources = (base / "tagged" / "valid.de").read_text(encoding="utf-8").splitlines()
    scores = Translator.load(run, tag="to-no").score(sources, ["No."] * len(sources))
    total = sum(score.log_probability or 0 for score in scores)
    mean = -total / sum(len(score.tokens) for score in scores)
    assert mean == pytest.approx(metrics(run, "valid/loss")[-1], rel=1e-3)


def test_the_tag_has_no_column_in_an_alignment(run: Path) -> None:
    alignment = Translator.load(run, tag="to-yes").align("Das Kind schläft.", "The child sleeps.")
    assert alignment.weights.shape[-2:] == (3, 4)  # three words a side, and the end


def test_a_tag_is_read_of_files_as_of_a_sentence(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    text, translation = "Das Kind schläft.", "The child sleeps."
    for name, line in (("text.de", text), ("text.en", translation)):
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    files = ["--source", tmp_path / "text.de", "--target", tmp_path / "text.en"]
    written = []
    for what in (files, [text, translation]):
        output = tmp_path / "links.align"
        options = ["--tag", "to-yes", "--layer", "1", "--device", "cpu", "-o", output]
        assert seq2seq("align", run, *what, *options).code == 0
        written.append(output.read_text(encoding="utf-8"))
    assert written[0] == written[1]
    wrong = seq2seq("align", run, *files, "--tag", "maybe", "-o", output)
    assert "there is no tag 'maybe'" in refused(wrong)


@pytest.mark.parametrize("limit", [3, 12])
def test_a_long_text_has_room_for_its_tag_in_every_part(run: Path, limit: int) -> None:
    translator = Translator.load(run, tag="to-no")
    with pytest.warns(UserWarning, match="translated in"):
        ((translations, _),) = translator.stream(
            ["Das Kind schläft. " * 5], translator.search(), max_source=limit
        )
    assert len(translations[0].text.split()) >= 2


def test_an_unknown_tag_is_refused(run: Path) -> None:
    with pytest.raises(ConfigError, match="there is no tag 'maybe'"):
        Translator.load(run, tag="maybe")
