"""Export models to folders for the translation engines of Firefox: a binary Marian model in 8 bits,
SentencePiece vocabularies, a shortlist, and the engine's settings.

Ids are in the order of Firefox's vocabularies: `</s>`, `<unk>`, then the pieces. The engines need
vocabulary sizes that are multiples of 8, so unused pieces fill up the vocabulary.
"""

import warnings
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from seq2seq.attention.ssru import SSRU
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import BOS, EOS, NAMES, UNK
from seq2seq.checkpoint import Saved
from seq2seq.decoding.calibration import input_maxima
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.interchange import agreement, coverage, marian_binary
from seq2seq.interchange.agreement import Agreement, Rows, Scored
from seq2seq.interchange.huggingface_export import find_marian_gap
from seq2seq.interchange.imported import NEVER
from seq2seq.interchange.marian import DESCRIPTION, candidate_names, read_marian
from seq2seq.interchange.marian_binary import EMBEDDING, INPUT_MULTIPLIER, LARGEST
from seq2seq.interchange.marian_options import EPS, ORDERS
from seq2seq.interchange.marian_shortlist import serialize_lists
from seq2seq.models.layers.positions import Sinusoidal
from seq2seq.models.transformer import Transformer
from seq2seq.text.tokenization import piece_model, sentencepiece
from seq2seq.text.tokenization.piece_model import CONTROL, UNKNOWN, UNUSED, Piece
from seq2seq.text.tokenization.tokenizer import Tokenizer

DEPTH, WIDTH = 64, 8  # numbers of inputs and outputs of a matrix product are multiples of these
FILES = files("seq2seq.interchange")
OPTIONS = FILES.joinpath("firefox_options.txt").read_text(encoding="utf-8")
SETTINGS = FILES.joinpath("firefox_settings.txt").read_text(encoding="utf-8")
STUDENT = "fxtranslate computes only models with model.norm_order=post attn@decoder_attn=ssru"


def export(saved: Saved, folder: Path, rows: Rows, lists: Shortlist | None) -> Agreement:
    """Write a model, its vocabularies, its shortlist and the settings.

    Args:
        rows: sources as ids without eos, for calibrating the inputs of matrix products.
        lists: shortlist of the run, if it has one.

    Returns: the agreement of the original with the exported 8-bit model.
    Raises: ConfigError listing everything that the engine cannot compute; nothing is written then.
    """
    model = coverage.check_exportable(
        saved.build(),
        "Firefox's engine",
        lambda model: [*list_firefox_gaps(model), *list_text_gaps(saved)],
    )
    if model.encoder[0].around_feed.pre or type(model.decoder[0].attention) is not SSRU:
        warnings.warn(STUDENT, stacklevel=1)
    pair = f"{saved.config['data']['source']}{saved.config['data']['target']}"
    vocabularies = {f"vocab.{pair}.spm": saved.source}
    if saved.source is not saved.target:
        vocabularies = {f"srcvocab.{pair}.spm": saved.source, f"trgvocab.{pair}.spm": saved.target}
    contents = {
        name: piece_model.serialize(build_piece_model(tokenizer))
        for name, tokenizer in vocabularies.items()
    }
    names = [f"model.{pair}.intgemm.alphas.bin", *contents]
    contents[names[0]] = marian_binary.serialize_items(build_items(saved, model, rows))
    settings = ["relative-paths: true", "models:", f"- {names[0]}", "vocabs:"]
    settings += [f"- {names[1]}", f"- {names[-1]}"]
    if lists is not None:
        name = f"lex.50.50.{pair}.s2t.bin"
        settings += ["shortlist:", f"- {name}", "- false"]
        contents[name] = serialize_lists(order_lists(lists, saved.target.size), 2)
    contents["config.yml"] = ("\n".join(settings) + f"\n{SETTINGS}").encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    imported = read_marian(folder / names[0], [folder / name for name in names[1:]], (None, None))
    quantized = imported.saved.build()  # with our ids, then the unused ones

    def translate(batch: Rows, beams: int, limit: int) -> Scored:
        targets = agreement.search_as_theirs(quantized, batch, beams, limit)
        return [*zip(targets, agreement.score_targets(quantized, batch, targets), strict=True)]

    return agreement.compare_searches(model, translate, rows, beams=1)


def list_firefox_gaps(model: Transformer) -> list[str]:
    """A message for every part of a model that Firefox's engines lack."""
    first, embeddings = model.encoder[0], model.embeddings
    gaps = coverage.list_attention_gaps(model, find_firefox_gap, "mha, or decoder_attn=ssru")
    position, norm, feed = model.encoder_position, first.around_feed.norm, first.feed
    heads = {each.num_heads for each in model.attentions if not isinstance(each, SSRU)}
    needed = {
        "num_heads: they should all be equal. Train with equal ones": len(heads) < 2,
        "positions: it has only Marian's sinusoids. Train with position=sinusoidal "
        "position.endpoint=true": isinstance(position, Sinusoidal)
        and (position.endpoint, position.offset) == (True, 0),
        f"norms: it has only layer norms. Train with model.norm=layernorm model.norm_eps={EPS}": (
            isinstance(norm, nn.LayerNorm) and norm.eps == EPS
        ),
        "feed-forward: it has only relu. Train with model.activation=relu": (
            feed.gate is None and coverage.activation_name(feed) == "relu"
        ),
        "output: it uses the matrix of the target embeddings. Train with model.tie=all or target": (
            embeddings.output.weight is embeddings.target.weight
        ),
        "embeddings: it always scales them. Train with model.scale=true": embeddings.scale != 1.0,
        "decoder: it always begins with a zero vector. Train with model.zero_start=true": (
            not embeddings.target.weight[BOS].any()
        ),
        f"widths: they must be multiples of {DEPTH}. Train with other model.dim, model.ffn_dim": (
            embeddings.dim % DEPTH == 0 and feed.up.out_features % DEPTH == 0
        ),
    }
    return gaps + [gap for gap, holds in needed.items() if not holds]


def list_text_gaps(saved: Saved) -> list[str]:
    """A message for every tag or tokenizer of a model that Firefox's engines cannot handle."""
    gaps = []
    if saved.config["data"].get("both_directions"):
        gaps.append(
            "tags: it has none, but they tell this model the direction. Train one direction, with "
            "data.both_directions=false"
        )
    for tokenizer in (saved.source, saved.target):
        try:
            sentencepiece.piece_model_of(tokenizer)
        except ConfigError as error:
            gaps.append(f"pieces: {error}")
    return gaps


def find_firefox_gap(attention: Any) -> str | None:
    """The part of an attention that Firefox's engines lack, if any."""
    return None if type(attention) is SSRU else find_marian_gap(attention)


def build_piece_model(tokenizer: Tokenizer) -> piece_model.PieceModel:
    """The vocabulary in Marian's order.

    Raises: ConfigError if SentencePiece cannot represent the tokenizer.
    """
    model = sentencepiece.piece_model_of(tokenizer)
    symbols = [Piece(NAMES[EOS], 0.0, CONTROL), Piece(NAMES[UNK], 0.0, UNKNOWN)]
    pieces = [*symbols, *model.pieces[3:]]  # without <unk>, <s>, </s>
    added = [Piece(f"<unused{i}>", 0.0, UNUSED) for i in range(-len(pieces) % WIDTH)]
    return model._replace(pieces=[*pieces, *added])


def reorder(table: Tensor, added: float) -> np.ndarray:
    """The rows of a vocabulary's table in Marian's order, padded with rows filled with `added`."""
    rows = table.detach()[[EOS, UNK, *range(len(NAMES), len(table))]].float().numpy()
    shape = (-len(rows) % WIDTH, *rows.shape[1:])
    return np.concatenate((rows, np.full(shape, added, rows.dtype)))


def order_lists(lists: Shortlist, target_size: int) -> list[np.ndarray]:
    """The shortlist with Marian's ids. Pieces allowed in every translation are on the list of
    `</s>`, which every source contains.
    """
    size = len(lists.offsets) - 2
    places = np.zeros(target_size, np.int64)
    places[len(NAMES) :] = np.arange(2, target_size - 2)
    ordered = [size, UNK, *range(len(NAMES), size)]
    empty = [np.zeros(0, np.int64)] * (-len(ordered) % WIDTH)
    return [*(places[ids] for ids in lists.lists_of(ordered)), *empty]


def build_items(saved: Saved, model: Transformer, rows: Rows) -> Iterator[marian_binary.BinaryItem]:
    """The items of the model file, sorted by name as in Marian."""
    weights = marian_weights(saved.config, model)
    maxima = {
        candidate_names(saved.config, f"{name}.weight")[0]: largest
        for name, largest in input_maxima(model, rows).items()
    }
    for name, weight in sorted(weights.items()):
        is_integer = name in maxima or EMBEDDING in name
        yield (marian_binary.quantize if is_integer else marian_binary.of_floats)(name, weight)
    for name, largest in sorted(maxima.items()):
        multiplier = np.array([LARGEST / (largest or LARGEST)])
        if EMBEDDING in name:  # the output's multiplier; engines look for it in two ways
            yield marian_binary.of_floats(f"none{INPUT_MULTIPLIER}", multiplier)
            yield marian_binary.quantize(f"{name}{INPUT_MULTIPLIER}", multiplier)
        else:
            yield marian_binary.of_floats(f"{name}{INPUT_MULTIPLIER}", multiplier)
    yield marian_binary.describe(DESCRIPTION, OPTIONS + describe_architecture(model, saved))


def marian_weights(config: Mapping[str, Any], model: Transformer) -> dict[str, np.ndarray]:
    """The parameters by Marian's names: matrices of linear maps (K, N), vectors (1, N)."""
    named: dict[str, np.ndarray] = {}
    embeddings = model.embeddings
    bias = embeddings.output.bias.detach().clone()
    bias[UNK] = NEVER  # as in our searches
    for name, table, added in (
        ("source.weight", embeddings.source.weight, 0.0),
        ("target.weight", embeddings.target.weight, 0.0),
        ("output.bias", bias, NEVER),
    ):
        theirs = candidate_names(config, f"embeddings.{name}")[0]
        named[theirs] = np.atleast_2d(reorder(table, added))
    for name, weight, vector in coverage.maps_and_norms(model):
        theirs = candidate_names(config, f"{name}.weight")[0]
        named[theirs] = np.atleast_2d(weight.float().numpy().T)
        if not name.endswith("attention.x"):  # SSRU has one bias
            named[candidate_names(config, f"{name}.bias")[0]] = vector.float().numpy()[None]
    return named


def describe_architecture(model: Transformer, saved: Saved) -> str:
    """Marian's options that describe this model, one per line."""
    first, embeddings = model.encoder[0], model.embeddings
    pre = first.around_feed.pre
    [(before, after, top)] = [key for key, order in ORDERS.items() if (order == "pre") == pre]
    recurrent = isinstance(model.decoder[0].attention, SSRU)
    joint = embeddings.source is embeddings.target
    sizes = [len(reorder(t.weight, 0.0)) for t in (embeddings.source, embeddings.target)]
    described = {
        "dim-emb": embeddings.dim,
        "dim-vocabs": sizes,
        "enc-depth": len(model.encoder),
        "dec-depth": len(model.decoder),
        "transformer-heads": first.attention.num_heads,
        "transformer-dim-ffn": first.feed.up.out_features,
        "transformer-decoder-autoreg": "rnn" if recurrent else "self-attention",
        "transformer-preprocess": f'"{before}"',
        "transformer-postprocess": f'"{after.replace("a", "da")}"',
        "transformer-postprocess-top": f'"{top}"',
        "tied-embeddings": str(not joint).lower(),
        "tied-embeddings-all": str(joint).lower(),
    }
    return "".join(f"{name}: {value}\n" for name, value in described.items())
