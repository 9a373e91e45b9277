"""The decoding loop: the only place where a model and a search meet."""

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.decoding.head import top_candidates
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.search import Search
from seq2seq.models import Seq2Seq
from seq2seq.symbols import BOS, PAD


@torch.no_grad()
def decode(
    model: Seq2Seq,
    source: Tensor,
    search: Search,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch. Sentences leave it as soon as they are done.

    Args:
        model: in evaluation mode, unless dropout is wanted.
        source: ids (B, S), each row ending in eos and padded at the right.
        search: how hypotheses are chosen.
        prefixes: the tokens that each translation must begin with.

    Returns: for each sentence, in order, its hypotheses, best first.
    """
    found: list[list[Hypothesis]] = [[] for _ in source]
    if not found:
        return found
    state = model.start(model.encode(source), search.beams)
    lengths = (source != PAD).sum(1) - 1
    frontier = search.start(lengths, longest=model.max_length, prefixes=prefixes)
    places = list(range(len(source)))  # where in `found` the results of each live sentence belong
    tokens = source.new_full((len(source) * search.beams,), BOS)
    while places:
        decoded = model.step(tokens[:, None], state, search.reads_weights)
        candidates = top_candidates(model, decoded.hidden[:, -1], frontier.ask())
        parents, tokens, done = frontier.advance(*candidates, decoded.weights)
        if parents is not None:
            state.fork(parents)
        if done.any():
            gone, live = (rows.nonzero().flatten() for rows in (done, ~done))
            for row, hypotheses in zip(gone.tolist(), frontier.results(gone.tolist()), strict=True):
                found[places[row]] = hypotheses
            places = [places[row] for row in live.tolist()]
            state.keep(live)
            frontier.keep(live)
            tokens = tokens.view(-1, search.beams)[live].flatten()
    return found
