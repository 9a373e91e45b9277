"""Export Transformers to folders of Hugging Face: post-norm models as Marian, pre-norm models as
Pegasus.

The folder holds `config.json`, `generation_config.json`, `model.safetensors`, and the tokenizers of
the source (`tokenizer.json`) and of the target (`target_tokenizer.json`). Ids are in Marian's
order: `</s>`, `<unk>`, the pieces, `<pad>`. Since Marian's decoder begins with `<pad>`, our `<s>`
is called `<pad>` there. Our `<pad>` becomes `<s>`: no search chooses it, but it is kept, since it
has a share of the probability and leaving it out would change the ranking of beams.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.base.plugins import import_library
from seq2seq.base.symbols import BOS, EOS, NAMES, NEVER_GENERATED, PAD, UNK
from seq2seq.checkpoint import Saved
from seq2seq.data.batches.padding import pad_rows
from seq2seq.functional.positions import sinusoid
from seq2seq.interchange import coverage
from seq2seq.interchange.agreement import Rows, Scored
from seq2seq.interchange.huggingface import huggingface_name
from seq2seq.models.layers.positions import Sinusoidal
from seq2seq.models.transformer import Transformer
from seq2seq.text.tokenization.tokenizer import Tokenizer

POSITIONS = 512  # minimum length of the longest sentence


def export(saved: Saved, folder: Path) -> None:
    """Write a model and its tokenizers.

    Raises: ConfigError listing everything that the library cannot compute.
    """
    save_file = import_library("safetensors.torch").save_file
    model = coverage.check_exportable(saved.build(), "Hugging Face's library", list_marian_gaps)
    folder.mkdir(parents=True, exist_ok=True)
    longest = max(POSITIONS, saved.config["data"]["max_length"])
    save_file(dict(rename_weights(model, longest)), folder / "model.safetensors", {"format": "pt"})
    decode, places = saved.config["decode"], their_ids(model, saved.target.size).tolist()
    generation = {
        **symbol_ids(model),
        "num_beams": decode.get("beam_size", 1),
        "length_penalty": decode.get("length_penalty", 1.0),
        "early_stopping": decode.get("beam_size", 1) > 1,
        "max_length": longest,
        "bad_words_ids": [[i] for i in dict.fromkeys(places[s] for s in NEVER_GENERATED)],
    }
    tokenization = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": NAMES[EOS],
        "unk_token": NAMES[UNK],
        "pad_token": NAMES[PAD],
        "model_max_length": longest,
        "split_special_tokens": True,  # "<s>" inside a sentence is ordinary text
        "clean_up_tokenization_spaces": False,
    }
    contents = {
        "config": build_config(model, longest),
        "generation_config": generation,
        "tokenizer": renumber_tokenizer(saved.source, model),
        "target_tokenizer": renumber_tokenizer(saved.target, model),
        "tokenizer_config": tokenization,
    }
    for name, content in contents.items():
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


def list_marian_gaps(model: Transformer) -> list[str]:
    """A message for every part of a model that Marian and Pegasus lack."""
    first, embeddings = model.encoder[0], model.embeddings
    gaps = coverage.list_attention_gaps(model, find_marian_gap, "mha")
    position, norm = model.encoder_position, first.around_feed.norm
    if not isinstance(position, Sinusoidal) or position.endpoint or position.offset:
        gaps.append("positions: it has only sinusoids. Train with position=sinusoidal")
    if not isinstance(norm, nn.LayerNorm) or norm.eps != 1e-5:
        gaps.append("norms: it has only layer norms with 1e-5. Train with model.norm=layernorm")
    if first.feed.gate is not None:
        gaps.append("feed-forward: it has no gates. Train with model.activation=silu")
    if first.around_feed.pre and embeddings.source.weight is not embeddings.output.weight:
        gaps.append("embeddings: with pre-norm it has one matrix for all. Train with model.tie=all")
    return gaps


def find_marian_gap(attention: Any) -> str | None:
    """The part of an attention that Marian lacks, if any."""
    if gap := coverage.find_attention_gap(attention):
        return gap
    if attention.num_kv_heads != attention.num_heads:
        return "keys that heads share"
    scaled = attention.score.scale == attention.width**-0.5
    return None if scaled else f"score like {type(attention.score).__name__}"


def is_joint(model: Transformer) -> bool:
    return model.embeddings.source is model.embeddings.target


def is_merged(model: Transformer) -> bool:
    """True if `<pad>` and `<s>` have the same embedding, as in an imported model."""
    weight = model.embeddings.target.weight
    return torch.equal(weight[PAD], weight[BOS])


def our_ids(model: Transformer, size: int) -> list[int]:
    """Our ids in the library's order: `<pad>` and `<s>` come last if there is one vocabulary, and
    before the pieces if there are two.
    """
    symbols, rest = [BOS] if is_merged(model) else [PAD, BOS], list(range(len(NAMES), size))
    return [EOS, UNK, *rest, *symbols] if is_joint(model) else [EOS, UNK, *symbols, *rest]


def their_ids(model: Transformer, size: int) -> Tensor:
    """The library's id for each of our ids."""
    place = {ours: theirs for theirs, ours in enumerate(our_ids(model, size))}
    return torch.tensor([place.get(i, place[BOS]) for i in range(size)])


def symbol_ids(model: Transformer) -> dict[str, Any]:
    """The ids of the symbols, for both configuration files."""
    start = our_ids(model, model.embeddings.target.num_embeddings).index(BOS)
    ids = {"pad_token_id": start, "decoder_start_token_id": start, "eos_token_id": 0}
    return {**ids, "bos_token_id": None, "forced_eos_token_id": None}


def build_config(model: Transformer, longest: int) -> dict[str, Any]:
    first, embeddings = model.encoder[0], model.embeddings
    pre, merged = first.around_feed.pre, int(is_merged(model))
    described = {
        "model_type": "pegasus" if pre else "marian",
        "architectures": ["PegasusForConditionalGeneration" if pre else "MarianMTModel"],
        "vocab_size": embeddings.source.num_embeddings - merged,
        "d_model": embeddings.dim,
        "scale_embedding": embeddings.scale != 1.0,
        "activation_function": coverage.activation_name(first.feed),
        "max_position_embeddings": longest,
        "dropout": model.dropout.p,
        "activation_dropout": first.feed.dropout.p,
        "attention_dropout": first.attention.dropout,
        "tie_word_embeddings": embeddings.output.weight is embeddings.target.weight,
        **symbol_ids(model),
    }
    if pre:  # as in published folders; CTranslate2's converter needs these
        described |= {"normalize_before": True, "normalize_embedding": False}
    else:
        described["decoder_vocab_size"] = embeddings.target.num_embeddings - merged
        described["share_encoder_decoder_embeddings"] = is_joint(model)
    for name in ("encoder", "decoder"):
        layers = getattr(model, name)
        described |= {
            f"{name}_layers": len(layers),
            f"{name}_attention_heads": layers[0].attention.num_heads,
            f"{name}_ffn_dim": layers[0].feed.up.out_features,
        }
    return described


def rename_weights(model: Transformer, longest: int) -> Iterator[tuple[str, Tensor]]:
    """Our parameters under the library's names.

    Pegasus computes its table of positions itself, but complains if the file has none, so the
    table is included.
    """
    embeddings = model.embeddings
    if is_joint(model):
        yield "model.shared.weight", reorder_rows(model, embeddings.target.weight)
    for stack, table in {"encoder": embeddings.source, "decoder": embeddings.target}.items():
        if not is_joint(model):
            yield f"model.{stack}.embed_tokens.weight", reorder_rows(model, table.weight)
        if model.encoder[0].around_feed.pre:
            places = sinusoid(torch.arange(longest), embeddings.dim)
            yield f"model.{stack}.embed_positions.weight", places
    if embeddings.output.weight is not embeddings.target.weight:
        yield "lm_head.weight", reorder_rows(model, embeddings.output.weight)
    bias = embeddings.output.bias.detach().clone()
    if is_merged(model):
        bias[BOS] = torch.logaddexp(bias[PAD], bias[BOS])
    yield "final_logits_bias", reorder_rows(model, bias)[None]
    for name, weight, bias in coverage.maps_and_norms(model):
        yield huggingface_name(f"{name}.weight"), weight.contiguous()
        yield huggingface_name(f"{name}.bias"), bias.contiguous()


def reorder_rows(model: Transformer, table: Tensor) -> Tensor:
    """The rows of a vocabulary's table, in the order of `our_ids`."""
    return table.detach()[our_ids(model, len(table))].contiguous()


def renumber_tokenizer(tokenizer: Tokenizer, network: Transformer) -> dict[str, Any]:
    """A copy of a tokenizer that numbers pieces in the order of `our_ids` and ends every text in
    `</s>`.
    """
    content: dict[str, Any] = json.loads(tokenizer.to_json())
    names, model = tokenizer.symbols(), content["model"]
    names[PAD], names[BOS] = names[BOS], names[PAD]
    place = {names[i]: new for new, i in enumerate(our_ids(network, tokenizer.size))}
    if model["type"] == "Unigram":
        scores = dict(model["vocab"])
        model["vocab"] = [[name, scores.get(name, 0.0)] for name in place]
        model["unk_id"] = place[NAMES[UNK]]
    else:
        model["vocab"] = place
    added = [token for token in content["added_tokens"] if token["content"] in place]
    numbered = ({**token, "id": place[token["content"]]} for token in added)
    content["added_tokens"] = sorted(numbered, key=lambda token: token["id"])
    end = {"SpecialToken": {"id": NAMES[EOS], "type_id": 0}}
    text, second = ({"Sequence": {"id": i, "type_id": 0}} for i in "AB")
    of_end = {"id": NAMES[EOS], "ids": [place[NAMES[EOS]]], "tokens": [NAMES[EOS]]}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [text, end],
        "pair": [text, second, end],
        "special_tokens": {NAMES[EOS]: of_end},
    }
    return content


class HuggingFace:
    """An exported model, run by the `transformers` library.

    Raises: ConfigError if the library is not installed.
    """

    def __init__(self, saved: Saved, folder: Path):
        transformers = import_library("transformers")
        transformers.utils.logging.disable_progress_bar()
        self.model: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        model = saved.build()
        assert isinstance(model, Transformer)
        self.ids = torch.tensor(our_ids(model, saved.target.size))
        self.places = [their_ids(model, each.size) for each in (saved.source, saved.target)]

    @torch.no_grad()
    def translate(self, batch: Rows, beams: int, limit: int) -> Scored:
        """Translate a batch; see `agreement.Translate`."""
        ours = pad_rows([[*row, EOS] for row in batch])
        source, mask = self.places[0][ours], ours != PAD
        found = self.model.generate(
            source, attention_mask=mask, num_beams=beams, max_new_tokens=limit, max_length=None,
            early_stopping=beams > 1, length_penalty=1.0, do_sample=False,
        )  # fmt: skip
        logits = self.model(source, attention_mask=mask, decoder_input_ids=found[:, :-1]).logits
        logits[..., self.places[1][list(NEVER_GENERATED)]] = -torch.inf
        logp = logits.log_softmax(-1).gather(2, found[:, 1:, None])[..., 0]
        best = []
        for row, values in zip(self.ids[found[:, 1:]].tolist(), logp, strict=True):
            ids = row[: row.index(EOS) + 1] if EOS in row else row
            best.append((ids, float(values[: len(ids)].mean())))
        return best
