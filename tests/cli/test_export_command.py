"""`seq2seq export`: what it writes, prints and refuses."""

import contextlib
import io
from pathlib import Path

import pytest
from helpers.commands import SENTENCES, Command, refused
from helpers.tiny_runs import TINY_MODEL, save_model

from seq2seq import checkpoint
from seq2seq.decoding import build_search
from seq2seq.translation.translator import Translator


def test_an_exported_run_translates_as_the_run_does_by_the_printed_code(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2", reason="pip install ctranslate2")
    folder = tmp_path / "ct2"
    ended = seq2seq("export", run, "--format", "ctranslate2", "-o", folder, "--sentences", 20)
    assert ended.code == 0
    assert "compared in float32 on 20 sentences of" in ended.lines[0]
    assert "valid.de" in ended.lines[0]
    code = "\n".join(line[4:] for line in ended.lines if line.startswith("    "))
    code = code.replace('"..."', repr(SENTENCES[0])).replace('"int8"', '"float32"')
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    long = {"name": "beam", "beam_size": 5, "length_ratio": 0, "length_extra": 256}
    long["stopping"] = "count"  # as CTranslate2 does
    ((best, _),) = Translator.load(run, device="cpu").stream(SENTENCES[:1], build_search(long))
    assert best and printed.getvalue() == best[0].text + "\n"


def test_sentences_to_compare_may_be_given_or_are_random(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2", reason="pip install ctranslate2")
    text = tmp_path / "some.txt"
    text.write_text("\n".join(SENTENCES[:3]) + "\n\n", encoding="utf-8")
    command = "export", run, "--format", "ctranslate2", "-o", tmp_path / "a", "--check", text
    assert f"on 3 sentences of {text}" in seq2seq(*command).lines[0]
    saved = checkpoint.read(run)
    saved.config["data"]["valid"] = "nowhere"
    from seq2seq.cli.export import read_sources

    rows, whence = read_sources(saved, None, 5)
    assert (len(rows), whence) == (5, "random pieces")


def test_a_folder_that_is_not_empty_is_left_alone(seq2seq: Command, tmp_path: Path) -> None:
    save_model(tmp_path / "a.ckpt", *TINY_MODEL)
    command = "export", tmp_path / "a.ckpt", "--format", "ctranslate2", "-o", tmp_path
    assert "give a folder that is new or empty" in refused(seq2seq(*command))


def test_a_model_that_cannot_be_expressed_leaves_no_folder(
    seq2seq: Command, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2", reason="pip install ctranslate2")
    save_model(tmp_path / "a.ckpt", *TINY_MODEL, "attn=linear")
    folder = tmp_path / "ct2"
    command = "export", tmp_path / "a.ckpt", "--format", "ctranslate2", "-o", folder
    assert "CTranslate2 cannot compute this model" in refused(seq2seq(*command))
    assert not folder.exists()


def test_a_run_becomes_a_folder_of_transformers(
    seq2seq: Command, run: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install transformers")
    pytest.importorskip("safetensors", reason="pip install safetensors")
    folder = tmp_path / "hf"
    ended = seq2seq("export", run, "--format", "hf", "-o", folder, "--sentences", 3)
    assert ended.code == 0
    assert "compared in float32 on 3 sentences of" in ended.lines[0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    target = transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/target_tokenizer.json")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    batch = tokenizer(SENTENCES[:1], return_tensors="pt", return_token_type_ids=False)
    found = model.generate(**batch, num_beams=1, max_new_tokens=20, max_length=None)
    options = {"name": "greedy", "length_ratio": 0, "length_extra": 20}
    ((best, _),) = Translator.load(run, device="cpu").stream(SENTENCES[:1], build_search(options))
    assert target.batch_decode(found, skip_special_tokens=True) == [best[0].text]


def test_a_package_for_argos_needs_its_suffix(seq2seq: Command, run: Path, tmp_path: Path) -> None:
    command = "export", run, "--format", "argos", "-o", tmp_path / "x"
    assert "x.argosmodel" in refused(seq2seq(*command))
