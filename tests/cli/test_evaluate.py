"""`seq2seq evaluate`."""

import hashlib
import json
from pathlib import Path

import pytest
from helpers.commands import SENTENCES, Command, refused
from helpers.tiny_runs import TINY_MODEL, demo_lines, save_model
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2seq.cli.evaluate.systems import leaks_into
from seq2seq.cli.evaluate.testset import read_test_set
from seq2seq.data.text.leaks import Leaks
from seq2seq.text.tokenization.tokenizer import Tokenizer
from seq2seq.translation.translator import Translator


def test_scores_are_those_of_sacrebleu_and_come_first(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    ended = seq2seq("evaluate", run, *test_set, "-o", tmp_path / "out.en")
    hypotheses = (tmp_path / "out.en").read_text(encoding="utf-8").splitlines()
    assert hypotheses == Translator.load(run).translate(SENTENCES)
    references = [demo_lines("test", "en", 12)]
    metrics = {"BLEU": BLEU(), "chrF": CHRF(), "TER": TER()}
    values = {
        name: metric.corpus_score(hypotheses, references).score for name, metric in metrics.items()
    }
    signatures = {name: str(metric.get_signature()) for name, metric in metrics.items()}
    assert ended.lines[:6] == [
        *(f"{name} {value:.1f}" for name, value in values.items()),
        *signatures.values(),
    ]
    (line,) = seq2seq("evaluate", run, *test_set, "--json").lines
    system = json.loads(line)
    for name in metrics:
        assert system[name]["score"] == values[name]
        assert system[name]["signature"] == signatures[name]
    assert (system["path"], system["kind"], system["target_language"]) == (str(run), "model", "en")
    written = (tmp_path / "out.en").read_bytes()
    assert system["sha256"] == hashlib.sha256(written).hexdigest()


def test_a_file_of_translations_scores_like_the_model_that_made_it(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    output = tmp_path / "out.en"
    ended = seq2seq("evaluate", run, *test_set, "-o", output)
    again = seq2seq("evaluate", output, *test_set, "--language", "en")
    assert (again.code, [*again.lines, ended.lines[-1]]) == (0, ended.lines)
    (line,) = seq2seq("evaluate", run, output, *test_set, "--json").lines
    one, other = json.loads(line)["systems"]
    assert (one["BLEU"], one["sha256"]) == (other["BLEU"], other["sha256"])
    assert (one["kind"], other["kind"]) == ("model", "translations")


def test_test_pairs_that_were_trained_on_are_counted(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    source, reference = tmp_path / "test.de", tmp_path / "test.en"
    known, other = demo_lines("train", "de", 3), demo_lines("train", "en", 3)
    source.write_text(f"{known[0].upper()}\nxyz!\nqqq\n{known[1]}\n", encoding="utf-8")
    reference.write_text(f"{other[0]}\n{other[2].rstrip('.')}\nzzz\nyyy\n", encoding="utf-8")
    translations = tmp_path / "out.en"
    translations.write_text("a\n" * 4)
    typed = ("evaluate", run, source, reference)
    said = "3 of 4 test pairs share a side with train, 0 nearly"
    assert seq2seq(*typed).lines[-1].startswith(f"{run}: {said}")
    (line,) = seq2seq("evaluate", run, translations, source, reference, "--json").lines
    model, file = json.loads(line)["systems"]
    assert model["leaks"] == {"pairs": 3, "near": 0}
    assert file["leaks"] is None


@pytest.mark.parametrize(
    "train", [5, None, "no/such", ["a"], [5, 6], {"a": 5}, {"a": {"path": 5}}, {"a": {}}, "short"]
)
def test_training_text_that_cannot_be_read_is_not_counted(train: object, tmp_path: Path) -> None:
    (tmp_path / "short.de").write_text("eins\nzwei\n")
    (tmp_path / "short.en").write_text("one\n")
    spec = str(tmp_path / "short") if train == "short" else train
    (tmp_path / "test.de").write_text("eins\n")
    (tmp_path / "test.en").write_text("one\n")
    test_set = read_test_set(tmp_path / "test.de", tmp_path / "test.en")
    assert leaks_into({"train": spec, "source": "de", "target": "en"}, test_set) is None
    assert leaks_into({}, test_set) is None
    (tmp_path / "short.en").write_text("one\ntwo\n")
    data = {"train": str(tmp_path / "short"), "source": "de", "target": "en"}
    assert leaks_into(data, test_set) == Leaks(pairs=1)


@pytest.mark.parametrize("code", ["zho_Hans", "cmn", "zh_CN", "yue"])
def test_chinese_scores_the_same_by_any_code(seq2seq: Command, tmp_path: Path, code: str) -> None:
    lines = ["他昨天买了三本书，都很有意思。", "我们今天去公园看花。"]
    source, reference, output = (tmp_path / name for name in ("src", "ref", "out"))
    source.write_text("A.\nB.\n")
    reference.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    output.write_text("".join(f"{line}\n" for line in lines).replace("花", "书"), encoding="utf-8")
    typed = ("evaluate", output, source, reference, "--resamples", 0, "--language")
    expected = seq2seq(*typed, "zh")
    assert "tok:zh" in expected.out.decode() and not expected.err
    assert seq2seq(*typed, code) == expected


def test_a_language_that_does_not_exist_is_refused(seq2seq: Command, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("A.\n")
    typed = ("evaluate", *[tmp_path / "a"] * 3, "--language")
    for code in ("xx_nonsense", "letters", "de-xx-yy-zz"):
        message = refused(seq2seq(*typed, code))
        assert f"no language has the code {code}" in message and "zho_Hans" in message


def test_a_second_path_without_a_model_is_refused_before_the_first_translates(
    seq2seq: Command,
    run: Path,
    test_set: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Translator, "stream", lambda *_: pytest.fail("translated too early"))
    (tmp_path / "empty").mkdir()
    message = refused(seq2seq("evaluate", run, tmp_path / "empty", *test_set))
    assert f"{tmp_path / 'empty'} holds neither best.ckpt nor last.ckpt" in message
    (tmp_path / "damaged.ckpt").write_bytes(b"PK\x03\x04 and no more")
    message = refused(seq2seq("evaluate", run, tmp_path / "damaged.ckpt", *test_set))
    assert "damaged.ckpt is not a checkpoint" in message


def test_a_file_of_translations_has_a_line_for_each_sentence(
    seq2seq: Command, run: Path, test_set: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokenizer, "decode_batch", lambda _, rows: ["a\nb\rc"] * len(rows))
    output = test_set[0].with_name("out.en")
    assert seq2seq("evaluate", run, *test_set, "-o", output).code == 0
    assert output.read_bytes() == b"a b c\n" * len(SENTENCES)


def test_files_that_do_not_match_are_refused_before_the_model_is_loaded(
    seq2seq: Command, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    source, reference = test_set
    reference.write_text("one line\n", encoding="utf-8")
    message = refused(seq2seq("evaluate", tmp_path / "no model", source, reference))
    assert f"{source} has 12 line(s), {reference} 1." in message
    assert "scoring shifted pairs" in message


def test_an_output_that_cannot_be_written_is_refused_before_the_model_is_loaded(
    seq2seq: Command, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    output = tmp_path / "nowhere" / "out.en"
    message = refused(seq2seq("evaluate", tmp_path / "no model", *test_set, "-o", output))
    assert f"there is no folder {output.parent}" in message
    message = refused(seq2seq("evaluate", tmp_path / "no model", *test_set, "-o", tmp_path))
    assert f"-o {tmp_path} is a folder" in message


@pytest.mark.parametrize(
    "typed",
    [
        ("evaluate", "{run}", "{source}", "{reference}"),
        ("report", "{run}"),
        ("translate", "{run}", "Ein Hund."),
        ("align", "{run}", "--source", "{source}", "--target", "{reference}"),
    ],
    ids=lambda typed: typed[0],
)
def test_no_output_is_written_over_a_model(
    seq2seq: Command, test_set: tuple[Path, Path], tmp_path: Path, typed: tuple[str, ...]
) -> None:
    save_model(tmp_path / "best.ckpt", *TINY_MODEL)
    before = (tmp_path / "best.ckpt").read_bytes()
    names = {"run": tmp_path, "source": test_set[0], "reference": test_set[1]}
    words = [word.format(**names) for word in typed]
    message = refused(seq2seq(*words, "-o", tmp_path / "best.ckpt"))
    assert "best.ckpt would overwrite a model" in message
    assert (tmp_path / "best.ckpt").read_bytes() == before


def test_an_interval_of_one_sentence_is_not_defined(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    for name, text in (("a.de", SENTENCES[0]), ("a.en", "A dog."), ("b.en", "A cat.")):
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    files = tmp_path / "b.en", tmp_path / "a.de", tmp_path / "a.en"
    ended = seq2seq("evaluate", *files)
    assert "95% of 1,000 resamples: not defined for one sentence" in ended.lines
    assert "1 sentence" in seq2seq("evaluate", *files, "--lengths").lines[-1]
    two = (tmp_path / "a.en", *files, "--paired", "bootstrap")
    shown = "\n".join(seq2seq("evaluate", *two).lines)
    assert "±: 95% of 1,000 resamples not defined for one sentence" in shown
    assert "p not defined" in shown and "± 0.0" not in ended.out.decode() + shown
    assert json.loads(seq2seq("evaluate", *files, "--json").out)["BLEU"]["interval"] is None
    (bleu, *_) = json.loads(seq2seq("evaluate", *two, "--json").out)["paired"]["scores"].values()
    assert {(each["p_value"], each["interval"]) for each in bleu["systems"]} == {(None, None)}
    page = tmp_path / "report.html"
    sides = "--source", tmp_path / "a.de", "--reference", tmp_path / "a.en"
    assert seq2seq("report", run, *sides, "-o", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "not defined" in text and "± 0.0" not in text and "1 sentence," in text
