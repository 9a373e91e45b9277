"""The recurrence of the simpler simple recurrent unit, for all tokens at once.

    c_t = f_t * c_{t-1} + (1 - f_t) * x_t,   f_t = sigmoid(g_t)

Source: Kim et al. 2019, "From Research to Production and Back: Ludicrously Fast Neural Machine
Translation", after the simple recurrent unit of Lei et al. 2018, arXiv:1709.02755.
"""

import torch
from torch import Tensor

from seq2seq.functional.shapes import check
from seq2seq.functional.softmax import upcast


def gated_means(x: Tensor, gate: Tensor, before: Tensor | None = None) -> Tensor:
    """The state after each token: a running mean, whose gate is the share of the past that remains.

    Two consecutive steps can be combined into one, with the gate f_s f_t. All states are therefore
    computed in log2(T) rounds, each of which doubles the number of tokens that a state covers
    (Hillis and Steele 1986). Gates are at most 1, so that nothing overflows in a long sequence.

    Args:
        x: (N, T, E).
        gate: g, (N, T, E).
        before: state before the first token, (N, E); None = 0.

    Returns: (N, T, E), float32 at least.
    """
    check("N T E, N T E", x=x, gate=gate)
    gate = upcast(gate)
    stays, states = torch.sigmoid(gate), torch.sigmoid(-gate) * upcast(x)
    if before is not None:
        states = torch.cat((states[:, :1] + stays[:, :1] * before[:, None], states[:, 1:]), dim=1)
    reach = 1
    while reach < x.shape[1]:
        later = states[:, reach:] + stays[:, reach:] * states[:, :-reach]
        states = torch.cat((states[:, :reach], later), dim=1)
        stays = torch.cat((stays[:, :reach], stays[:, reach:] * stays[:, :-reach]), dim=1)
        reach *= 2
    return states
