"""The weights of a model carried over to another vocabulary."""

from torch import Tensor

from seq2seq.checkpoint import SIDES, Saved
from seq2seq.constraints.spelling import Spelling
from seq2seq.tokenization.tokenizer import Tokenizer

OF_VOCABULARY, OF_SOURCE = "embeddings.", "embeddings.source."  # weights with a row for each piece
Sources = list[list[int]]  # of each new piece, the old ones whose mean it begins as


def map_vocabulary(saved: Saved, now: Saved) -> tuple[Saved, list[str]]:
    """A model with the pieces of another one, to go on training with.

    A piece that writes the same bytes keeps its row of every matrix over the vocabulary and its
    bias, bit by bit. Any other begins as the mean of the fewest old pieces that spell it, and one
    that they cannot spell as in a new run. Control symbols and tags go by their names.

    Args:
        saved: the trained model; it is not changed.
        now: a new model with other tokenizers.

    Returns: the model, and for each side in words how its pieces begin.
    Raises: ConfigError for tokenizer=subword_nmt, whose pieces do not say what follows them.
    """
    sources = {side: find_sources(getattr(saved, side), getattr(now, side)) for side in SIDES}
    weights = {
        name: map_rows(value, now.weights[name], sources[SIDES[not name.startswith(OF_SOURCE)]])
        if name.startswith(OF_VOCABULARY) and name in now.weights
        else value
        for name, value in saved.weights.items()
    }
    mapped = saved._replace(source=now.source, target=now.target, weights=weights)
    told = [f"{side} vocabulary: {describe_sources(each)}" for side, each in sources.items()]
    return mapped, told


def find_sources(old: Tokenizer, new: Tokenizer) -> Sources:
    """The old pieces whose mean each new one begins as: one that writes the same, or the fewest
    that spell it, or none.
    """
    of_old, of_new = Spelling(old), Spelling(new)
    ids = {named: i for i, named in enumerate(zip(old.symbols(), of_old.writes, strict=True))}
    return [
        [ids[named]] if named in ids else of_old.fewest_pieces(named[1])
        for named in zip(new.symbols(), of_new.writes, strict=True)
    ]


def map_rows(old: Tensor, new: Tensor, sources: Sources) -> Tensor:
    """The rows of old (V, ...) by which those of new (W, ...) begin, which stay where there are no
    sources.
    """
    mapped = new.clone()
    for row, ids in enumerate(sources):
        if ids:
            mapped[row] = old[ids].mean(0)
    return mapped


def describe_sources(sources: Sources) -> str:
    kept = sum(len(ids) == 1 for ids in sources)
    spelled = sum(len(ids) > 1 for ids in sources)
    return (
        f"{len(sources):,} pieces, of which {kept:,} keep their rows, {spelled:,} begin as the "
        f"mean of those that spell them, {len(sources) - kept - spelled:,} anew"
    )
