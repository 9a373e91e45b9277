"""Dropout as a layer."""

from torch import Tensor, nn

from seq2seq.functional import dropout
from seq2seq.tables import check_range


class Dropout(nn.Module):
    """In training, `functional.dropout`; in evaluation, nothing.

    Args:
        p: probability, 0 <= p < 1.

    Raises: ConfigError for any other p.
    """

    def __init__(self, p: float):
        super().__init__()
        check_range("dropout", p, 0, 1)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"
