"""The decoding loop: the only place where a model and a search meet."""

import torch
from torch import Tensor

from seq2seq.decoding.head import top_candidates
from seq2seq.decoding.hypothesis import Hypothesis
from seq2seq.decoding.search import Search
from seq2seq.models import Seq2Seq
from seq2seq.symbols import BOS, PAD


@torch.no_grad()
def decode(model: Seq2Seq, source: Tensor, search: Search) -> list[list[Hypothesis]]:
    """Translate a batch. Sentences leave it as soon as they are done.

    Args:
        model: in evaluation mode, unless dropout is wanted.
        source: ids (B, S), each row ending in eos and padded at the right.
        search: `Greedy` or `Beam`; its state is begun anew.

    Returns: for each sentence, in order, its hypotheses, best first.
    """
    if not len(source):
        return []
    state = model.start(model.encode(source), search.beams)
    search.start((source != PAD).sum(1) - 1, model.max_length)
    tokens = source.new_full((len(source) * search.beams,), BOS)
    while tokens.numel():
        hidden = model.step(tokens[:, None], state).hidden[:, -1]
        candidates = top_candidates(model, hidden, search.candidates)
        parents, tokens, done = search.advance(candidates.logp, candidates.ids)
        if parents is not None:
            state.fork(parents)
        if done.any():
            live = (~done).nonzero().flatten()
            state.keep(live)
            search.keep(live)
            tokens = tokens.view(-1, search.beams)[live].flatten()
    return search.results()
