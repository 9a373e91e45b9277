"""Folders for Firefox's engine: the same function after export and import, and refusals."""

import os
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from helpers.tiny_runs import corpus, demo_lines, plan_of, train_tiny

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import BOS, EOS, NEVER_GENERATED
from seq2seq.checkpoint import Saved
from seq2seq.cli import export as command
from seq2seq.cli.main import parse_arguments
from seq2seq.decoding import build_search
from seq2seq.decoding.calibration import input_maxima
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.decoding.shortlist.file import NAME, write_shortlist
from seq2seq.interchange.agreement import random_rows
from seq2seq.interchange.coverage import check_exportable
from seq2seq.interchange.firefox import export, list_firefox_gaps
from seq2seq.interchange.marian import read_marian
from seq2seq.interchange.marian_binary import read_binary
from seq2seq.interchange.marian_shortlist import read_lists, read_marian_shortlist
from seq2seq.models import Seq2Seq, build_model
from seq2seq.text.tokenization.tokenizer import Tokenizer, Tokenizers
from seq2seq.text.tokenization.unigram import Unigram
from seq2seq.text.tokenization.words import WordLevel
from seq2seq.translation.translator import Translator

NONE = (None, None)
SIDES = ("de", "en")
STUDENT = [
    *("model.norm_order=post", "model.norm_eps=1e-6", "model.zero_start=true"),
    *("position.endpoint=true", "attn@decoder_attn=ssru"),
    *("model.dim=64", "model.ffn_dim=64", "model.num_heads=4"),
    *("model.encoder_layers=2", "model.decoder_layers=2"),
]


def unigram(seed: str, size: int = 330) -> Tokenizer:
    return Unigram(vocab_size=size).train(demo_lines("train", seed, 40))


def saved_model(*overrides: str, joint: bool = True) -> Saved:
    """An untrained student with random weights, also in biases and norms."""
    source = unigram("de", 333)
    target = source if joint else unigram("en", 331)
    student = [
        each for each in STUDENT if "position=rope" not in overrides or "endpoint" not in each
    ]
    config = plan_of(Path(), "run_name=tiny", *student, *overrides).model
    torch.manual_seed(1)
    model = build_model(config, source.size, target.size)
    weights = dict(model.state_dict())
    for name, value in weights.items():
        if any(part in name for part in ("bias", "norm")):
            value.add_(0.2 * torch.randn(value.shape))
    data = {"source": "de", "target": "en", "max_length": 128}
    return Saved(
        {**config, "decode": {"name": "greedy"}, "data": data}, source, target, weights, False
    )


def logits_of(model: Seq2Seq, source: list[int], target: list[int]) -> np.ndarray:
    """The logits of all tokens except those that no search writes."""
    hidden = model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]])).hidden
    found = model.logits(hidden)[0].detach().numpy()
    return np.delete(found, list(NEVER_GENERATED), axis=1)


def quantized(name: str, value: torch.Tensor) -> torch.Tensor:
    """A matrix rounded to 127 steps on each side of zero, as in the file."""
    if value.dim() < 2:
        return value
    whole = torch.cat((value[:1] * 0, value[2:])) if "embeddings" in name else value  # no pad, <s>
    multiplier = np.float32(127 / float(whole.abs().max()))
    return torch.round(value * multiplier).double() / float(multiplier)


@pytest.mark.parametrize(
    ("overrides", "joint"),
    [
        ([], True),
        (["attn@decoder_attn=mha", "attn.bias=true"], True),
        (["model.norm_order=pre"], True),
        (["model.tie=target", "attn.bias=true"], False),
    ],
    ids=["ssru", "mha", "pre-norm", "two vocabularies"],
)
@torch.no_grad()
def test_reading_a_folder_gives_the_weights_in_8_bits(
    overrides: list[str], joint: bool, tmp_path: Path
) -> None:
    saved = saved_model(*overrides, joint=joint)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        export(saved, tmp_path / "out", random_rows(saved, 3), None)
    needed = "fxtranslate computes only models with model.norm_order=post attn@decoder_attn=ssru"
    is_other = any(each.startswith(("attn@", "model.norm_order")) for each in overrides)
    assert [str(each.message) for each in caught] == [needed] * is_other
    files = [*sorted((tmp_path / "out").glob("*vocab*"))]
    back = read_marian(next((tmp_path / "out").glob("model*")), files, NONE)
    model, other = saved.build().double(), back.saved.build().double()
    model.load_state_dict({name: quantized(name, x) for name, x in saved.weights.items()})
    size = saved.target.size
    for row in random_rows(saved, 4):
        target = [i % (size - 4) + 4 for i in row]
        mine = logits_of(model, row, target)
        theirs = logits_of(other, row, target)
        assert (theirs[:, mine.shape[1] :] < -9000).all()  # the rows that were added
        np.testing.assert_allclose(theirs[:, : mine.shape[1]], mine, rtol=0, atol=1e-4)
    texts = demo_lines("test", "de", 20)
    assert back.saved.source.encode_batch(texts) == saved.source.encode_batch(texts)


@torch.no_grad()
def test_inputs_are_scaled_by_their_largest_value(tmp_path: Path) -> None:
    saved = saved_model()
    rows, model = random_rows(saved, 3), saved.build()
    maxima = input_maxima(model, rows)
    first = model.embeddings.embed_source(torch.tensor([[*rows[0], EOS]]))
    assert maxima["encoder.0.attention.q"] == maxima["encoder.0.attention.v"] > 1
    assert maxima["encoder.0.attention.q"] >= float(
        model.encoder_position.embed(first, torch.arange(first.shape[1])).abs().max()
    )
    assert not any(each._forward_pre_hooks for each in model.modules())
    export(saved, tmp_path / "out", rows, None)
    arrays = read_binary(tmp_path / "out" / "model.deen.intgemm.alphas.bin")
    found = {name: float(x.item()) for name, x in arrays.items() if name.endswith("_QuantMultA")}
    expected = 127 / maxima["encoder.1.feed.down"]
    assert found["encoder_l2_ffn_W2_QuantMultA"] == pytest.approx(expected)
    assert found["none_QuantMultA"] == pytest.approx(127 / maxima["embeddings.output"])
    assert found["Wemb_QuantMultA"] == pytest.approx(found["none_QuantMultA"])
    assert len(found) == len(maxima) + 1


def test_sizes_are_multiples_that_the_products_need(tmp_path: Path) -> None:
    saved = saved_model()
    export(saved, tmp_path, random_rows(saved, 1), None)
    content = (tmp_path / "model.deen.intgemm.alphas.bin").read_bytes()
    assert len(content) % 256 == 0
    arrays = read_binary(tmp_path / "model.deen.intgemm.alphas.bin")
    assert len(arrays["Wemb"]) % 8 == 0
    settings = yaml.safe_load((tmp_path / "config.yml").read_text())
    assert settings["models"] == ["model.deen.intgemm.alphas.bin"]
    assert settings["vocabs"] == ["vocab.deen.spm"] * 2 and "shortlist" not in settings
    assert settings["gemm-precision"] == "int8shiftAlphaAll"


def test_reading_a_folder_gives_its_shortlist(tmp_path: Path) -> None:
    saved = saved_model()
    pairs = np.array([[9, 12], [9, 7], [saved.source.size, 8], [20, 21]])
    own = np.array([[i, i] for i in range(4, saved.source.size)])
    lists = Shortlist.of_pairs(np.concatenate((pairs, own)), saved.source.size)
    export(saved, tmp_path, random_rows(saved, 1), lists)
    file = tmp_path / "lex.50.50.deen.s2t.bin"
    frequent, offsets, _ = read_lists(file)
    assert frequent == 2 and len(offsets) % 8 == 1
    assert yaml.safe_load((tmp_path / "config.yml").read_text())["shortlist"] == [file.name, False]
    maps = read_marian(next(tmp_path.glob("model*")), [tmp_path / "vocab.deen.spm"], NONE).maps
    back = read_marian_shortlist(file, maps)
    for place in range(saved.source.size):
        [mine], [theirs] = lists.lists_of([place]), back.lists_of([place])
        assert mine.tolist() == theirs.tolist()
    assert back.lists_of([len(back.offsets) - 2])[0].tolist() == [8]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["attn@decoder_attn=linear"], "no attention like Linear. Train with attn=mha, or deco"),
        (["attn@encoder_attn=gqa"], "no keys that heads share"),
        (["position=rope"], "position=sinusoidal position.endpoint=true"),
        (["position.endpoint=false"], "position.endpoint=true"),
        (["model.norm=rmsnorm"], "model.norm=layernorm model.norm_eps=1e-06"),
        (["model.norm_eps=null"], "model.norm_eps=1e-06"),
        (["model.activation=gelu"], "model.activation=relu"),
        (["model.activation=swiglu"], "model.activation=relu"),
        (["model.tie=none"], "model.tie=all or target"),
        (["model.scale=false"], "model.scale=true"),
        (["model.zero_start=false"], "model.zero_start=true"),
        (["model.dim=32"], "multiples of 64"),
        (["model.ffn_dim=96"], "multiples of 64"),
        (["attn@cross_attn=mha", "cross_attn.num_heads=2"], "num_heads: they should all be equal"),
    ],
)
def test_what_the_engine_lacks_is_refused_by_name(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_exportable(saved_model(*overrides).build(), "Firefox's engine", list_firefox_gaps)
    assert words in str(caught.value)


def test_all_reasons_are_given_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    words = WordLevel(vocab_size=333).train(demo_lines("train", "de", 400))
    saved = saved_model("model.scale=false", "position=rope")._replace(source=words, target=words)
    weights = build_model(saved.config, words.size, words.size).state_dict()
    saved.config["data"]["both_directions"] = True
    with pytest.raises(ConfigError) as caught:
        export(saved._replace(weights=dict(weights)), tmp_path / "out", random_rows(saved, 1), None)
    for option in (
        "position=sinusoidal", "model.scale=true", "data.both_directions=false", "tokenizer=unigram"
    ):  # fmt: skip
        assert str(caught.value).count(option) == 1
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def student(base: Path) -> Path:
    """A run trained on 40 pairs until it knows them, so that 8 bits change little."""
    typed = ["tokenizer=unigram", "tokenizer.vocab_size=400", "trainer.max_steps=300"]
    typed += [f"data.train={corpus(base) / 'valid'}", "model.dropout=0", "model.ffn_dim=256"]
    typed += ["data.max_tokens=2048", "optimizer.lr=5e-3", "trainer.log_every_n_steps=50"]
    return train_tiny(base, *STUDENT, *typed)


def exported(run: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    words = ["export", run, "--format", "firefox", "-o", folder, "--sentences", "20"]
    assert command.run(parse_arguments([*map(str, words)])) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_the_command_reports_what_8_bits_change(
    student: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = exported(student, tmp_path / "out", capsys)
    assert "written; compared in 8 bits on 20 sentences of" in told
    assert "greedy: " in told and "beam" not in told


def engine() -> str:
    """A Python in which fxtranslate is installed."""
    python = os.environ.get("FXTRANSLATE_PYTHON", "python3")
    found = subprocess.run([python, "-c", "import fxtranslate"], capture_output=True, check=False)
    if found.returncode:
        pytest.skip("pip install fxtranslate, and FXTRANSLATE_PYTHON=its python")
    return python


ENGINE = """
import sys
from pathlib import Path
from fxtranslate import Translator
names = sys.argv[1:]
files = [Path(name).read_bytes() for name in names]
engine = Translator(files[0], files[1], files[1], *files[2:])
for line in sys.stdin.buffer.read().decode().splitlines():
    sys.stdout.buffer.write(engine.translate(line).encode() + b"\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize("listed", [False, True])
def test_the_engine_of_firefox_translates_nearly_the_same(
    listed: bool, student: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = engine()
    texts = (corpus(student.parent) / "valid.de").read_text(encoding="utf-8").splitlines()[:20]
    saved = checkpoint.read(student)
    if listed:
        lists = lists_of(saved, corpus(student.parent))
        write_shortlist(student / NAME, lists, Tokenizers(saved.source, saved.target))
    try:
        exported(student, tmp_path / "out", capsys)
        greedy = build_search({"name": "greedy", "length_ratio": 2, "length_extra": 4})
        found = Translator.load(student, device="cpu").stream(texts, greedy)
        ours = [hypotheses[0].text for hypotheses, _ in found]
    finally:
        (student / NAME).unlink(missing_ok=True)
    files = [next((tmp_path / "out").glob(f"{kind}.*")) for kind in ("model", "vocab")]
    files += (tmp_path / "out").glob("lex.*")
    ended = subprocess.run(
        [python, "-c", ENGINE, *files], input="\n".join(texts).encode(), capture_output=True
    )
    assert ended.returncode == 0, ended.stderr.decode()
    theirs = ended.stdout.decode().splitlines()
    equal = sum(one == other for one, other in zip(ours, theirs, strict=True))
    print(f"{equal} of {len(texts)} equal")
    assert equal >= 18


def lists_of(saved: Saved, folder: Path) -> Shortlist:
    """Each source piece lists the pieces of the translations of its sentences."""
    texts = [(folder / f"valid.{side}").read_text(encoding="utf-8").splitlines() for side in SIDES]
    rows = zip(
        saved.source.encode_batch(texts[0]), saved.target.encode_batch(texts[1]), strict=True
    )
    pairs = [(s, t) for source, target in rows for s in source for t in target]
    return Shortlist.of_pairs(np.array(pairs), saved.source.size)
