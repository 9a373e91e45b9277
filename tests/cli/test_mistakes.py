"""Answers to a mistyped command line: what is wrong, what would be right, what to type."""

import subprocess
import sys

import pytest
from helpers.builders import CONF, every_other
from helpers.train_options import complaint
from helpers.train_options import every_logger_is_installed as every_logger_is_installed

MISTAKES = [
    ("attn.num_kv_head=4", "unknown option attn.num_kv_head; did you mean 'attn.num_kv_heads'?"),
    (
        "attn=linear attn.dropout=0.1",
        "attn.dropout means nothing here: there are no weights",
    ),
    ("attn=performer +attn.dropout=0.1", "attn.dropout=0.1 means nothing here: there are no"),
    ("attn=linear +cross_attn.dropout=0.1", "dropout=0.1 means nothing here: there are no weights"),
    ("attn.dropot=0.1", "unknown option attn.dropot; did you mean 'attn.dropout'?"),
    ("attn=mla position=rope +cross_attn.rope_dim=4", "cross_attn.rope_dim=4: source and target"),
    ("model.feedforward=64", "unknown option model.feedforward. Known: model.activation, "),
    ("trainer.dropuot=0", "unknown option trainer.dropuot. Known: "),
    ("atn=gqa", "unknown option atn; did you mean 'attn'?"),
    ("attn=gqaa", "unknown attn 'gqaa'; did you mean 'gqa'? Known: additive, "),
    ("model=transfomer", "unknown model 'transfomer'; did you mean 'transformer'?"),
    ("+attn.heads=4", "unknown option attn.heads; did you mean 'num_heads'?"),
    ("+cros_attn.dropout=0", "unknown option cros_attn; did you mean 'cross_attn'?"),
    ("cross_attn.dropout=0", "+cross_attn.dropout="),
    ("model.dim=wide", "model.dim='wide' should be a whole number"),
    ("model.dim=1.5", "model.dim=1.5 should be a whole number"),
    ("model.scale=1", "model.scale=1 should be true or false"),
    ("model.norm=batchnorm", "should be one of 'layernorm', 'rmsnorm'"),
    ("model.dropout=1.5", "dropout=1.5 should be in [0, 1)"),
    ("model.activation_dropout=1", "model.activation_dropout=1 should be in [0, 1)"),
    ("model.word_dropout=-0.1", "model.word_dropout=-0.1 should be in [0, 1)"),
    ("model.attention_dropout=1", "attn.dropout=1 should be in [0, 1)"),
    ("attn=linear model.attention_dropout=0.1", "attention like linear has no weights to drop"),
    ("model=rnn +model.activation_dropout=0.1", "a recurrent model has no feed-forward networks"),
    ("model.dim=0", "model.dim=0 should be at least 1"),
    ("loss.label_smoothing=1", "loss.label_smoothing=1 should be in [0, 1)"),
    ("loss.r_drop=-1", "loss.r_drop=-1 should be at least 0"),
    ("loss.simcut=-1", "loss.simcut=-1 should be at least 0"),
    ("loss.simcut_p=0.3", "loss.simcut_p=0.3 needs loss.simcut above 0"),
    ("loss.simcut_p=1", "loss.simcut_p=1 should be in [0, 1)"),
    ("loss.simcut=3 loss.simcut_p=0", "loss.simcut_p=0 cuts none: type loss.simcut_p=0.05"),
    ("loss.simcut=3 loss.r_drop=5", "keep one of them, and set the other to 0"),
    ("loss.r_drop=5 model.dropout=0", "but this model has no dropout: type model.dropout=0.3"),
    ("optimizer.lr=-inf", "optimizer.lr=-inf is too small: more than -4294967296 is possible"),
    ("checkpoint.monitor=comet", "should be one of bleu, chrf, exact, ser, loss, or command:"),
    (
        "checkpoint.mode=min",
        "checkpoint.mode=min is only for the number of a command, not for bleu",
    ),
    ("checkpoint.monitor=command:nobodys_program", "there is no program 'nobodys_program'"),
    ("checkpoint.monitor='command:'", "there is no program ''"),
    ("seed=-1", "seed=-1 should be in [0, "),
    ("seed=99999999999", "seed=99999999999 is too large: less than 4294967296"),
    ("trainer.max_epochs=0", "trainer.max_epochs=0 trains nothing: give 1 or more, or -1"),
    ("trainer.max_steps=0 schedule=constant", "trainer.max_steps=0 trains nothing"),
    ("trainer.max_epochs=-2", "trainer.max_epochs=-2 trains nothing"),
    ("trainer.max_time=00:00:00:00", "trainer.max_time=00:00:00:00 should be"),
    ("trainer.max_time=9999999999:00:00:00", "trainer.max_time=9999999999:00:00:00 should be"),
    (f"trainer.max_steps={10**30}", f"trainer.max_steps={10**30} is too large"),
    (f"data.max_tokens={10**12}", f"data.max_tokens={10**12} is too large"),
    (f"validation.sentences={10**30}", "validation.sentences=1000000000000000000000000000000 is"),
    ("optimizer.lr=1e300", "optimizer.lr=1e+300 is too large"),
    ("optimizer.weight_decay=inf", "optimizer.weight_decay=inf is too large"),
    ("model.ffn_dim=99999999999", "model.ffn_dim=99999999999 is too large"),
    ("optimizer.lr=nan", "optimizer.lr=nan should be at least 0"),
    ("optimizer.betas=[0.9,1]", "optimizer.betas[1]=1 should be in [0, 1)"),
    ("optimizer.betas=[0.9]", "should be a list of"),
    ("schedule.warmup=-1", "schedule.warmup=-1 should be at least 0"),
    ("trainer.gradient_clip_val=-1", "trainer.gradient_clip_val=-1 should be at least 0"),
    ("trainer.accelerator=gpus", "should be one of 'auto', 'cpu', 'gpu'"),
    ("trainer.precision=8", "should be one of 'auto', '32-true', 'bf16-mixed', '16-mixed'"),
    ("trainer.max_time=1h", "trainer.max_time=1h should be days:hours:minutes:seconds"),
    ("trainer.val_check_interval=0", "trainer.val_check_interval=0 should be at least 1"),
    ("trainer.max_steps=-1", "a cosine needs an end"),
    ("trainer.max_steps=-1 schedule=constant", "nothing ends this training"),
    ("decode.beam_size=0", "decode.beam_size=0 should be at least 1"),
    ("decode.cache=page", "decode.cache='page' should be one of 'auto', 'dense', 'paged'"),
    ("decode.workers=0", "decode.workers=0 should be auto, or from 1"),
    ("decode.rows=0", "decode.rows=0 should be at least 1"),
    ("decode.coverage=0.2 attn=fixed", "coverage=0.2 needs the weights of cross-attention"),
    ("decode.coverage=0.2 decode.coverage_layer=2", "at least -2 and less than 2"),
    ("tokenizer.vocab_size=100", "tokenizer.vocab_size=100 is too small"),
    ("tokenizer.dropout=1", "tokenizer.dropout=1 should be in [0, 1)"),
    ("tokenizer=unigram tokenizer.dropout=0.1", "unknown option tokenizer.dropout"),
    ("tokenizer=word +tokenizer.dropout=0.1", "unknown option tokenizer.dropout"),
    ("tokenizer.dropout=0.1 guided.links=a", "guided.links belong to the pieces without dropout"),
    ("data.groups=words", "data.groups=words changes nothing here: no attention to the source"),
    (
        "data.groups=words attn@decoder_attn=hierarchical_context",
        "seq2seq train attn=hierarchical_context data.groups=words",
    ),
    ("data.groups=sentences attn=hierarchical_context", "needs a mark that ends them"),
    ("data.sentence_separator=.", "data.sentence_separator='.' has no effect with"),
    ("data.max_tokens=10", "data.max_tokens=10 is less than data.max_length=256"),
    ("model.num_heads=3", "num_heads=3 does not divide dim=128"),
    ("attn.num_kv_heads=3", "num_kv_heads=3 does not divide num_heads=4"),
    ("position=rope attn=additive", "position=sinusoidal"),
    ("model=rnn attn@encoder_attn=mha", "this model has no encoder self-attention"),
    ("model=rnn model.dim=33", "model.dim=33 must be even"),
    ("attn@encoder_attn=fixed", "fixed is not defined for encoder self-attention"),
    ("tokenizer.joint=false", "tokenizer.joint=true, or model.tie=target"),
    ("data=files", "data.source, data.target, data.train, data.valid must be given"),
    ("resume=nothing.ckpt", "resume=nothing.ckpt: there is no such file"),
    ("~seed", "seed is missing"),
    ("~decode", "decode is missing"),
    ("loss=5", "loss=5 should be a group of options"),
    ("~model.dim", "model.dim is missing: a whole number"),
    ("~attn.name", "attn has no name"),
    ("model.name=gru", "unknown model 'gru'. Known: rnn, rnn_luong, transformer"),
    ("position=learned position.length=100", "Type data.max_length=100"),
    ("position=learned position.length=0", "position.length=0 should be at least 1"),
    ("attn=linformer attn.length=100", "Type data.max_length=100, or leave attn.length out"),
    (
        "attn@cross_attn=linformer cross_attn.length=8 cross_attn.rank=4",
        "in the cross-attention is",
    ),
    ("attn=linformer attn.rank=300", "attn.rank=300 is more than attn.length=256"),
    ("attn=linformer attn.rank=0", "attn.rank=0 should be at least 1"),
    ("attn=linformer position=rope", "Take position=sinusoidal"),
    ("model=rnn_luong attn=local_p attn.radius=0", "attn.radius=0 should be at least 1"),
    ("attn@encoder_attn=local_m", "it looks for the place of a word in another sentence"),
    ("attn@decoder_attn=linformer", "each compressed key mixes all positions, future ones incl"),
    ("position=t5 position.num_heads=2", "has num_heads=4. Take position.num_heads=4"),
    ("position=transformer_xl position.num_heads=2", "has num_heads=4. Take position.num_heads=4"),
    ("position=t5 position.num_buckets=7", "position.num_buckets=7 should be even"),
    ("position=t5 position.max_distance=8", "position.max_distance=8 should be at least 32"),
    ("position=rope attn=concat_linear", "Take position=sinusoidal"),
    ("attn=concat attn.kernel=fused", "Take kernel=auto"),
    ("model.dim=[1", "key=value"),
]


@pytest.mark.parametrize("mistake", every_other(MISTAKES), ids=[typed for typed, _ in MISTAKES])
def test_each_mistake_has_a_message(mistake: tuple[str, str]) -> None:
    typed, words = mistake
    assert words in complaint(*typed.split())


def test_several_mistakes_are_reported_at_once() -> None:
    message = complaint("model.dim=x", "decode.beam_size=0", "optimizer.lr=-1", "schedule.warmup=y")
    for option in ("model.dim=", "decode.beam_size=", "optimizer.lr=", "schedule.warmup="):
        assert option in message


def test_the_mistakes_of_all_roles_are_reported_at_once() -> None:
    roles = ("encoder_attn=local_p", "decoder_attn=efficient", "cross_attn=reformer")
    message = complaint(*(f"attn@{role}" for role in roles))
    for name in ("local_p", "efficient", "reformer"):
        assert f"{name} is not defined for" in message


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=CONF.parent, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("attn.num_kv_head=4", "did you mean 'attn.num_kv_heads'?"),
        pytest.param("logger=null", "logger=none", marks=pytest.mark.slow),
        pytest.param("hydra.run.dir=/dev/null/run", "/dev/null/run", marks=pytest.mark.slow),
    ],
)
def test_the_command_line_ends_in_one_message(typed: str, words: str) -> None:
    ended = python("train.py", typed)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ") and words in ended.stderr
    assert "Traceback" not in ended.stderr and not ended.stdout


def test_a_misspelt_option_is_reported_without_importing_torch_or_lightning() -> None:
    heavy = "{'torch', 'lightning'} & set(sys.modules)"
    script = f"import sys, seq2seq.training.launch; print({heavy} or 'none')"
    assert python("-c", script).stdout == "none\n"
