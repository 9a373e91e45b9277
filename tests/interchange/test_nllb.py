"""NLLB and M2M-100, compared with transformers: the same pieces, logits and translations."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.interchange_models import texts_of

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.base.symbols import BOS, EOS, PAD
from seq2seq.data.batches.padding import pad_rows
from seq2seq.interchange.huggingface_folder import read_folder
from seq2seq.interchange.imported import ImportedModel
from seq2seq.translation.translator import Translator

pytest.importorskip("transformers", reason="pip install transformers")
pytest.importorskip("sentencepiece", reason="pip install sentencepiece")

from helpers.many_language_folders import LANGUAGES, m2m_folder, nllb_folder

NONE = (None, None)
TEXTS = texts_of(3, 100)
# The form of a folder, and a source and target language.
FORMS: dict[str, tuple[Any, tuple[str, str]]] = {
    "nllb": (nllb_folder, ("deu_Latn", "eng_Latn")),
    "m2m_100": (m2m_folder, ("de", "fr")),
    "m2m_100 of BPE": (lambda folder, **more: m2m_folder(folder, kind="bpe", **more), ("en", "zu")),
}
every_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(scope="module", params=FORMS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder, the model and the tokenizer of transformers, and the languages to translate."""
    write, languages = FORMS[request.param]
    folder = tmp_path_factory.mktemp("folder")
    return folder, *write(folder), languages


def their_ids(imported: ImportedModel) -> torch.Tensor:
    return torch.tensor(imported.maps[0].ids)


def run_of(folder: Path, languages: Any = NONE) -> Path:
    """The run of a folder, written once."""
    run = folder / "run"
    if not run.exists():
        read_folder(folder, languages).write(run)
    return run


def theirs(model: Any, tokenizer: Any, languages: tuple[str, str], **search: Any) -> Any:
    """The translations of `TEXTS` by transformers: texts, and scores if there are beams."""
    tokenizer.src_lang = languages[0]
    name = languages[1] if languages[1] in LANGUAGES else f"__{languages[1]}__"
    out = model.generate(
        **tokenizer(TEXTS, return_tensors="pt", padding=True),
        forced_bos_token_id=tokenizer.convert_tokens_to_ids(name),
        max_length=None,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **search,
    )
    texts = tokenizer.batch_decode(out.sequences, skip_special_tokens=True)
    # The library does not know that these are special.
    texts = [re.sub("__[a-z]+__", "", text).strip() for text in texts]
    return texts, getattr(out, "sequences_scores", None)


@torch.no_grad()
def test_pieces_states_and_logits_are_those_of_transformers(pair: Any) -> None:
    folder, model, tokenizer, languages = pair
    imported = read_folder(folder, languages)
    ids, ours = their_ids(imported), imported.saved.build()
    translator = Translator(imported.saved, "cpu")
    direction = translator.directions.find()
    tokenizer.src_lang = languages[0]
    asked = tokenizer(TEXTS[:30], return_tensors="pt", padding=True)
    rows = imported.saved.source.encode_batch(TEXTS[:30])
    source = pad_rows([[*direction.before, *row, EOS] for row in rows])
    assert torch.equal(ids[source], asked.input_ids)
    start = torch.full((30, 1), BOS)
    target = torch.cat((start, torch.randint(4, len(ids), (30, 12))), 1)
    mask = source != PAD
    out = model(asked.input_ids, attention_mask=mask, decoder_input_ids=ids[target])
    states = ours.encode(source).states
    torch.testing.assert_close(states[mask], out.encoder_last_hidden_state[mask], atol=2e-5, rtol=0)
    logits = ours.logits(ours(source, target).hidden)
    missing = imported.maps[0].missing  # pieces of SentencePiece without an id
    others = torch.arange(len(ids)) != BOS
    others[len(ids) - missing :] = False
    expected = out.logits[..., ids][..., others]
    torch.testing.assert_close(logits[..., others], expected, atol=1e-4, rtol=1e-4)
    assert (logits[..., ~others] < -9000).all()
    assert len(ids) == model.config.vocab_size + 1 + missing


@pytest.mark.parametrize("beams", [1, 5])
def test_a_hundred_texts_are_translated_as_by_transformers(pair: Any, beams: int) -> None:
    folder, model, tokenizer, languages = pair
    search: dict[str, Any] = {"num_beams": beams}
    if beams > 1:
        search |= {"early_stopping": True, "length_penalty": 2.0}
    expected, scores = theirs(model, tokenizer, languages, max_new_tokens=24, **search)
    translator = Translator.load(run_of(folder), "cpu", languages=languages)
    limits: dict[str, Any] = {"length_ratio": 0.0, "length_extra": 24, "max_length": 24}
    found = translator.search("greedy", **limits)
    if beams > 1:
        best = {"beam_size": beams, "length_penalty": 2.0, "stopping": "count", **limits}
        found = translator.search("beam", **best)
    results = list(translator.stream(TEXTS, translator.engine(found, workers=1)))
    assert [result.translations[0].text for result in results] == expected
    assert len({text for text in expected if text}) > 12
    ended = [not result.translations[0].truncated for result in results]
    assert 20 < sum(ended) < 100
    if scores is not None:
        ours = torch.tensor([result.translations[0].score for result in results])
        torch.testing.assert_close(ours, scores, atol=1e-4, rtol=1e-4)


def test_texts_of_several_directions_share_a_batch_and_each_is_that_of_its_direction(
    pair: Any,
) -> None:
    folder, _, _, languages = pair
    translator = Translator.load(run_of(folder), "cpu")
    there = {"source_language": languages[0], "target_language": languages[1]}
    back = {"source_language": languages[1], "target_language": languages[0]}
    for way in (there, back):
        alone = translator.translate(TEXTS[:10], **way)
        assert alone == [translator.translate([text], **way)[0] for text in TEXTS[:10]]
    assert translator.translate(TEXTS[:10], **there) != translator.translate(TEXTS[:10], **back)
    with pytest.raises(
        ConfigError, match="target language is missing: give --target-language, one of"
    ):
        translator.translate(TEXTS[:1], source_language=languages[0])


@torch.no_grad()
def test_a_score_is_the_log_probability_by_transformers(pair: Any) -> None:
    folder, model, tokenizer, languages = pair
    translator = Translator.load(run_of(folder), "cpu", languages=languages)
    tokenizer.src_lang, tokenizer.tgt_lang = languages
    asked = tokenizer(TEXTS[:8], text_target=TEXTS[8:16], return_tensors="pt", padding=True)
    labels = asked.pop("labels")
    logp = model(**asked, labels=labels).logits.log_softmax(-1)
    each = logp.gather(2, labels[..., None])[..., 0].masked_fill(labels == 1, 0)
    expected = each[:, 1:].sum(1)  # without the language
    scores = translator.score(TEXTS[:8], TEXTS[8:16])
    ours = torch.tensor([score.log_probability for score in scores])
    torch.testing.assert_close(ours, expected, atol=1e-3, rtol=1e-4)


def test_weights_in_halves_and_in_shards_are_the_same_model(tmp_path: Path) -> None:
    nllb_folder(tmp_path / "whole", dtype=torch.float16)
    nllb_folder(tmp_path / "split", dtype=torch.float16, max_shard_size="20KB")
    assert len([*(tmp_path / "split").glob("*.safetensors")]) > 2
    whole, split = (read_folder(tmp_path / name, NONE) for name in ("whole", "split"))
    assert {*whole.saved.weights} == {*split.saved.weights}
    for name, value in whole.saved.weights.items():
        assert torch.equal(value, split.saved.weights[name]) and value.dtype == torch.float32


def test_weights_of_torch_in_shards_are_read_too(tmp_path: Path) -> None:
    model, _ = nllb_folder(tmp_path)
    expected = read_folder(tmp_path, NONE).saved.weights
    (tmp_path / "model.safetensors").unlink()
    tensors = {n: x for n, x in model.state_dict().items() if "lm_head" not in n}
    half = len(tensors) // 2
    parts = {"a.bin": dict([*tensors.items()][:half]), "b.bin": dict([*tensors.items()][half:])}
    for file, part in parts.items():
        torch.save(part, tmp_path / file)
    listed = {name: file for file, part in parts.items() for name in part}
    write_json(tmp_path / "pytorch_model.bin.index.json", {"weight_map": listed})
    found = read_folder(tmp_path, NONE).saved.weights
    assert all(torch.equal(value, found[name]) for name, value in expected.items())


def test_int8_and_the_native_decoder_compute_it(pair: Any) -> None:
    from seq2seq.decoding.precision import is_native

    folder, _, _, languages = pair
    translator = Translator.load(run_of(folder), "cpu", languages=languages)
    assert is_native(translator.convert("float32")) and is_native(translator.convert("int8"))
    engine = translator.engine(precision="int8", workers=1)
    results = list(translator.stream(TEXTS[:20], engine))
    assert all(result.translations and not result.failed for result in results)


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def edit(path: Path, change: Callable[[Any], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    write_json(path, content)


def edit_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each form, and one with shards; copied before it is damaged."""
    base = tmp_path_factory.mktemp("written")
    nllb_folder(base / "nllb")
    m2m_folder(base / "m2m")
    nllb_folder(base / "shards", max_shard_size="20KB")
    return {name: base / name for name in ("nllb", "m2m", "shards")}


@pytest.fixture
def copied(written: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    import shutil

    def copy(name: str) -> Path:
        return Path(shutil.copytree(written[name], tmp_path / name))

    return copy


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "nllb-moe"}, "model_type='nllb-moe' should be 'marian' .OPUS-MT. or 'm2m_100'"),
    ({"vocab_size": 10}, "vocab_size=10 should be a whole number from "),
    ({"vocab_size": 300}, "vocab_size=300, but the weights lack"),
    ({"vocab_size": 2**24}, "vocab_size=16777216, but the weights lack"),
    ({"scale_embedding": "false"}, "scale_embedding='false' should be true or false"),
    ({"d_model": "32"}, "d_model='32' should be a whole number"),
    ({"encoder_layers": 3}, r"weights lack model\.encoder\.layers\.2"),
    ({"decoder_layers": 10**9}, "decoder_layers=1000000000 should be a whole number"),
    ({"encoder_ffn_dim": 40}, "encoder_ffn_dim and decoder_ffn_dim differ"),
    ({"activation_function": "tanh"}, "activation_function='tanh' should be relu"),
    ({"tie_word_embeddings": False}, "tie_word_embeddings=False should be True"),
    ({"pad_token_id": 0}, "pad_token_id=0 should be 1"),
    ({"decoder_start_token_id": 0}, "decoder_start_token_id=0 should be 2"),
    ({"max_position_embeddings": -1}, "max_position_embeddings=-1 should be a whole number"),
]


@pytest.mark.parametrize("form", ["nllb", "m2m"])
@pytest.mark.parametrize(("changes", "words"), CHANGES, ids=lambda each: str(each)[:40])
def test_an_odd_configuration_is_refused_by_name(
    copied: Any, form: str, changes: dict[str, Any], words: str
) -> None:
    folder = copied(form)
    edit(folder / "config.json", lambda content: content.update(changes))
    with pytest.raises(DataError, match=words) as refused:
        read_folder(folder, NONE)
    assert str(folder) in str(refused.value)


@pytest.mark.parametrize("form", ["nllb", "m2m"])
@torch.no_grad()
def test_what_is_not_said_is_as_in_transformers(copied: Any, form: str) -> None:
    """Embeddings are scaled unless the configuration says otherwise, and logits have no bias."""
    import transformers

    folder = copied(form)
    edit(folder / "config.json", lambda content: content.pop("scale_embedding"))
    size = len(read_folder(folder, NONE).maps[0].ids) - 1
    edit_tensors(folder, lambda tensors: tensors.update(final_logits_bias=torch.randn(1, size)))
    imported = read_folder(folder, NONE)
    ids, ours = their_ids(imported), imported.saved.build()
    model = transformers.M2M100ForConditionalGeneration.from_pretrained(folder).eval()
    rows, start = torch.tensor([[7, 8, 9, EOS]]), torch.tensor([[BOS, 9, 8]])
    expected = model(ids[rows], decoder_input_ids=ids[start]).logits[..., ids[4:100]]
    found = ours.logits(ours(rows, start).hidden)[..., 4:100]
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def drop_languages(content: Any) -> None:
    content["added_tokens"] = [t for t in content["added_tokens"] if "_" not in t["content"]]


def drop_merged_piece(content: Any) -> None:
    first, second = content["model"]["merges"][0]
    content["model"]["vocab"]["other"] = content["model"]["vocab"].pop(first + second)


TOKENIZERS: list[tuple[str, str, Callable[[Any], object], str]] = [
    (
        "nllb",
        "tokenizer.json",
        drop_languages,
        "should have <pad> and symbols of languages",
    ),
    ("nllb", "tokenizer.json", drop_merged_piece, "merges pieces that it lacks"),
    (
        "nllb",
        "tokenizer.json",
        lambda c: c["model"].update(type="WordPiece"),
        "has .*WordPiece.*BPE",
    ),
    (
        "nllb",
        "tokenizer.json",
        lambda c: c["model"].update(vocab=5),
        "does not describe a tokenizer",
    ),
    ("nllb", "tokenizer.json", lambda c: c.pop("added_tokens"), "does not describe a tokenizer"),
    ("nllb", "tokenizer.json", lambda c: c["added_tokens"].pop(6), "without gaps"),
    ("nllb", "tokenizer.json", lambda c: c.update(normalizer={"type": "Lowercase"}), "Lowercase"),
    (
        "nllb",
        "tokenizer_config.json",
        lambda c: c.update(legacy_behaviour=True),
        "legacy_behaviour",
    ),
    ("m2m", "tokenizer_config.json", lambda c: c.update(language_codes="x"), "m2m100 or wmt21"),
    ("m2m", "vocab.json", lambda c: c.pop("<pad>"), "without gaps"),
    ("m2m", "vocab.json", lambda c: c.update({"__de__": len(c)}), "vocab.json has __de__"),
]


@pytest.mark.parametrize(("form", "file", "change", "words"), TOKENIZERS)
def test_an_odd_tokenizer_is_refused_by_name(
    copied: Any, form: str, file: str, change: Callable[[Any], object], words: str
) -> None:
    folder = copied(form)
    edit(folder / file, change)
    with pytest.raises(DataError, match=words):
        read_folder(folder, NONE)


@pytest.mark.parametrize("name", ["nllb", "m2m"])
def test_a_missing_tokenizer_is_named(copied: Any, name: str) -> None:
    folder = copied(name)
    missing = "tokenizer.json" if name == "nllb" else "sentencepiece.bpe.model"
    (folder / missing).unlink()
    with pytest.raises(DataError, match=f"{missing} is missing"):
        read_folder(folder, NONE)


def first_shard(folder: Path) -> Path:
    return min(folder.glob("model-*.safetensors"))


def point_outside(folder: Path) -> None:
    first_shard(folder).rename(folder.parent / "outside.safetensors")
    edit(
        folder / "model.safetensors.index.json",
        lambda c: c["weight_map"].update(dict.fromkeys(c["weight_map"], "../outside.safetensors")),
    )


def link_outside(folder: Path) -> None:
    shard, outside = first_shard(folder), folder.parent / "linked.safetensors"
    shard.rename(outside)
    shard.symlink_to(outside)


def swap_file(folder: Path) -> None:
    files = sorted(folder.glob("model-*.safetensors"))
    files[0].write_bytes(files[1].read_bytes())


def forget_tensor(folder: Path) -> None:
    edit(folder / "model.safetensors.index.json", lambda c: c["weight_map"].popitem())


def spoil_index(folder: Path) -> None:
    edit(folder / "model.safetensors.index.json", lambda c: c.update(weight_map={"a": 5}))


SHARDS: list[tuple[Callable[[Path], object], str]] = [
    (lambda folder: first_shard(folder).unlink(), "is missing"),
    (point_outside, r"lists '../outside.safetensors': expected files in the same folder"),
    (link_outside, "is a link to another folder"),
    (swap_file, "disagree on which file has"),
    (forget_tensor, "disagree on which file has|weights lack"),
    (spoil_index, "should hold the file of each tensor in a weight_map"),
    (lambda folder: first_shard(folder).write_bytes(b"x" * 99), "is not a safetensors file"),
]


@pytest.mark.parametrize(("damage", "words"), SHARDS)
def test_damaged_shards_are_refused_by_name(
    copied: Any, damage: Callable[[Path], object], words: str
) -> None:
    folder = copied("shards")
    damage(folder)
    with pytest.raises(DataError, match=words):
        read_folder(folder, NONE)


def test_tables_of_positions_are_compared(copied: Any) -> None:
    folder = copied("nllb")
    expected = read_folder(folder, NONE).saved.weights
    rates = 10_000 ** (-torch.arange(16, dtype=torch.float64) / 15)
    angles = torch.arange(130, dtype=torch.float64)[:, None] * rates
    table = torch.cat((angles.sin(), angles.cos()), 1).float()
    table[1] = 0
    names = [f"model.{side}.embed_positions.weights" for side in ("encoder", "decoder")]
    edit_tensors(folder, lambda tensors: tensors.update({n: table.clone() for n in names}))
    found = read_folder(folder, NONE).saved.weights
    assert all(torch.equal(value, found[name]) for name, value in expected.items())
    edit_tensors(folder, lambda tensors: tensors[names[1]].add_(0.01))
    with pytest.raises(DataError, match=r"decoder\.embed_positions\.weights should be the usual"):
        read_folder(folder, NONE)


def test_weights_that_are_not_finite_or_not_used_are_refused(copied: Any) -> None:
    folder = copied("m2m")
    edit_tensors(folder, lambda tensors: tensors.update(extra=torch.zeros(2)))
    with pytest.raises(DataError, match=r"1 tensor.s. are not used, such as extra"):
        read_folder(folder, NONE)
    edit_tensors(folder, lambda tensors: tensors.pop("extra"))
    edit_tensors(folder, lambda tensors: tensors["model.shared.weight"][5].fill_(torch.inf))
    with pytest.raises(DataError, match="values that are not finite"):
        read_folder(folder, NONE)


def test_default_languages_are_checked(copied: Any) -> None:
    folder = copied("m2m")
    data = read_folder(folder, ("deu", None)).saved.config["data"]
    assert data["source"] == "de" and data["target"] is None and len(data["languages"]) == 100
    with pytest.raises(ConfigError, match="unknown target language 'tlh'"):
        read_folder(folder, (None, "tlh"))


@pytest.mark.parametrize("name", ["nllb", "m2m"])
def test_training_goes_on_in_the_same_form(copied: Any, name: str, tmp_path: Path) -> None:
    """The printed command fine-tunes; before the first update, the loss is that of transformers."""
    import shlex

    from helpers.tiny_runs import metrics, train_again

    from seq2seq.cli.importing import finetune_command

    folder, languages = copied(name), ("deu_Latn", "eng_Latn") if name == "nllb" else ("de", "en")
    imported = read_folder(folder, languages)
    imported.write(tmp_path / "init")
    for part, first in (("train", 0), ("valid", 60)):
        for language, shift in zip(languages, (0, 30), strict=True):
            text = "".join(f"{line}\n" for line in TEXTS[first + shift : first + shift + 10])
            (tmp_path / f"{part}.{language}").write_text(text, encoding="utf-8")
    command = shlex.split(finetune_command(imported, tmp_path / "init"))[2:]
    given = [word for word in command if not word.endswith("=PREFIX")]
    more = [f"data.train={tmp_path / 'train'}", f"data.valid={tmp_path / 'valid'}"]
    more += [f"data.cache={tmp_path / 'cache'}", "trainer=cpu", "trainer.max_steps=2"]
    more += ["trainer.val_check_interval=1", "optimizer.lr=1e-9", "loss.label_smoothing=0"]
    more += ["trainer.precision=32-true", "model.dropout=0", "schedule.warmup=0"]
    run = tmp_path / "run"
    train_again(run, *given, *more, "data.max_tokens=2048", "run_name=tiny")
    data = Translator.load(run, "cpu").config["data"]
    assert data["languages"] == [*languages] and data["language_tags"] == "both"
    there, back = languages, languages[::-1]
    lines = {each: (tmp_path / f"valid.{each}").read_text().splitlines() for each in languages}
    total = pieces = 0.0
    before = Translator.load(tmp_path / "init", "cpu")
    for source, target in (there, back):
        named = {"source_language": source, "target_language": target}
        direction = before.directions.find(**named)
        rows = before.source.encode_batch(lines[source])
        targets = before.target.encode_batch(lines[target])
        for row, ids in zip(rows, targets, strict=True):
            asked = torch.tensor([[*direction.before, *row, EOS]])
            whole = torch.tensor([[BOS, *direction.start, *ids, EOS]])
            with torch.no_grad():
                logits = before.model.logits(before.model(asked, whole[:, :-1]).hidden)
            logp = logits.log_softmax(-1)[0].gather(1, whole[0, 1:, None])
            total, pieces = total - float(logp.sum()), pieces + len(ids) + 2
    assert metrics(run, "valid/loss")[0] == pytest.approx(total / pieces, rel=1e-3)
    search: Any = {"beam_size": 2, "length_penalty": 1.0, "length_ratio": 1.0, "length_extra": 5}
    found = [
        Translator.load(path, "cpu", languages=languages).translate(TEXTS[:5], **search)
        for path in (tmp_path / "init", run)
    ]
    assert found[0] == found[1]
