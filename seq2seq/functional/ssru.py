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
    """The state after each token: a running mean, whose gate says how much of the past stays.

    Two steps in a row are again one step, with the gate f_s f_t. So all states are made in log2(T)
    rounds, in each of which a token takes in twice as many tokens before it (Hillis and Steele
    1986). Gates are at most 1: nothing overflows, however long the sequence is.

    Args:
        x: (N, T, E).
        gate: g, (N, T, E).
        before: the state before the first token, (N, E); None = 0.

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
