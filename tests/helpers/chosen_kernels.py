"""Whether a run of pytest tests the kernels for GPUs; only then Triton is imported."""

import pytest
from _pytest.mark.expression import Expression


def are_kernels_chosen(config: pytest.Config) -> bool:
    """True if `-m` names the marker `triton` and selects tests that have it."""
    typed = config.getoption("markexpr")
    chosen = Expression.compile(typed or "not triton")
    plain, slow = (
        chosen.evaluate(lambda name, marks=marks, **_: name in marks)
        for marks in ({"triton"}, {"triton", "slow"})
    )
    return "triton" in typed and (plain or slow)
