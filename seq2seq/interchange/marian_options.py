"""Convert the options of Marian models.

Every option is either supported, or known to have no effect, or refused by name, since ignoring an
unknown option might change the model. The names are from Marian's src/common/config_parser.cpp, up
to version 1.12.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from seq2seq.base.errors import DataError
from seq2seq.interchange import imported
from seq2seq.interchange.imported import read_integer, shorten
from seq2seq.text.tokenization.directions import Codes

EPS = 1e-6  # epsilon of Marian's norms
# Options that are supported only if they are off.
OFF = """
alibi best-deep input-join-fields layer-normalization output-omit-bias right-left
transformer-alibi-shift transformer-alibi-trainable transformer-disable-position-embeddings
transformer-no-affine transformer-no-bias transformer-no-projection transformer-pool
transformer-rnn-projection transformer-train-position-embeddings transformer-train-positions ulr"""
EITHER = "tied-embeddings tied-embeddings-all tied-embeddings-src"  # on or off
# Options of which only these values are supported; the first is the default.
ONLY: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(OFF.split(), (False,)),
    "type": ("transformer",),
    "factors-combine": ("sum",),
    **dict.fromkeys(("factors-dim-emb", "lemma-dim-emb", "word-penalty"), (0,)),
    **dict.fromkeys(("input-reorder", "output-approx-knn", "special-vocab"), ([],)),
    "input-types": ([], ["sequence", "sequence"]),
    "lemma-dependency": ("",),
    **dict.fromkeys(EITHER.split(), (False, True)),
    "transformer-attention-mask": ("default",),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-decoder-dim-ffn": (0,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-ffn-activation": ("swish", "relu"),
    "transformer-ffn-depth": (2,),
    "transformer-postprocess-emb": ("", "d"),
    "transformer-tied-layers": ([],),
}
NUMBERS = "beam-size dec-depth dim-emb dim-vocabs enc-depth normalize transformer-dim-ffn"
ORDER = [f"transformer-{name}" for name in ("preprocess", "postprocess", "postprocess-top")]
# The norm order for each combination of values of these three options, without dropout.
ORDERS = {("", "an", ""): "post", ("n", "a", "n"): "pre"}
READ = {*ONLY, *NUMBERS.split(), *ORDER, "dec-cell", "transformer-heads"}

# Options that have no effect on models of this kind.
TEXT = files("seq2seq.interchange").joinpath("marian_options.txt").read_text(encoding="utf-8")
NOTHING = frozenset(line for line in TEXT.splitlines() if line and not line.startswith("#"))


def convert_options(
    config: Mapping[str, Any], sizes: list[int], languages: Codes, where: str
) -> dict[str, Any]:
    """Convert Marian's options into the nodes of our configuration.

    Args:
        config: options that are not null.
        sizes: sizes of the source and target vocabularies.
        languages: source and target language, if known.
        where: file, for messages.

    Raises: DataError naming every option that is unknown or not supported.
    """
    if wrong := find_wrong_options(config, sizes):
        raise DataError(f"{where}: not supported: {'; '.join(wrong)}")
    shared = bool(config.get("tied-embeddings-all") or config.get("tied-embeddings-src"))
    tied = bool(config.get("tied-embeddings-all") or config.get("tied-embeddings"))
    nodes = imported.build_model_nodes(
        [read_integer(config, "transformer-heads", where, 1, 2**10, default=8)] * 2,
        dim=read_integer(config, "dim-emb", where, 4, 2**16, default=512),
        encoder_layers=read_integer(config, "enc-depth", where, 1, 128),
        decoder_layers=read_integer(config, "dec-depth", where, 1, 128),
        ffn_dim=read_integer(config, "transformer-dim-ffn", where, 1, 2**20, default=2048),
        activation=imported.ACTIVATIONS[config.get("transformer-ffn-activation", "swish")],
        norm_order=find_norm_order(config),
        norm_eps=EPS,
        tie="none" if not tied else "all" if shared else "target",
        scale=True,
        dropout=0.1,
        activation_dropout=None,
        endpoint=True,
        zero_start=True,
    )
    if is_recurrent(config):
        nodes["attention"]["decoder"] = {"name": "ssru"}
    beams = read_integer(config, "beam-size", where, 1, 1000, default=5)
    penalty = config.get("normalize", 1.0)
    return nodes | imported.build_other_nodes(languages, 512, beams, penalty)


def find_wrong_options(config: Mapping[Any, Any], sizes: list[int]) -> list[str]:
    """A message for each option that is unknown, or whose value is not supported."""
    wrong = [
        f"{name if isinstance(name, str) else shorten(name):.60}={shorten(value)} is not known"
        for name, value in config.items()
        if name not in READ | NOTHING
    ]
    wrong += [
        f"{name}={shorten(config[name])} should be {' or '.join(map(repr, known))}"
        for name, known in ONLY.items()
        if config.get(name, known[0]) not in known
    ]
    if find_norm_order(config) is None:
        given = [shorten(config.get(name)) for name in ORDER]
        wrong.append(f"{', '.join(ORDER)} are {given}; expected '', 'dan', '' or 'n', 'da', 'n'")
    if is_recurrent(config) and config.get("dec-cell") != "ssru":
        wrong.append(f"dec-cell={shorten(config.get('dec-cell'))} should be 'ssru'")
    # Zeros, or an empty list, mean all pieces.
    if (given := config.get("dim-vocabs", [])) not in ([], [0, 0], sizes):
        wrong.append(
            f"dim-vocabs={shorten(given)} should be {sizes}, as many as the vocabularies have"
        )
    return wrong


def find_norm_order(config: Mapping[str, Any]) -> str | None:
    """The order of norms, `pre` or `post`; None if the options describe another one."""
    given = [config.get(name, value) for name, value in zip(ORDER, ("", "dan", ""), strict=True)]
    if not all(isinstance(each, str) for each in given):
        return None
    before, after, top = (each.replace("d", "") for each in given)  # without dropout
    return ORDERS.get((before, after, top))


def is_recurrent(config: Mapping[str, Any]) -> bool:
    return bool(config.get("transformer-decoder-autoreg") == "rnn")
