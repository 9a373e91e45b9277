"""Bytes held by tensors while something runs; not the memory of the process."""

import os
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile


class Live(NamedTuple):
    """Bytes in addition to those alive before."""

    peak: int  # maximum at any moment
    held: int  # at the end, with the result still alive


def live_memory(run: Callable[[], object], device: torch.device) -> Live:
    """The memory that `run` allocates, inside operations too, from every allocation and release.

    On a CPU, a tensor that was alive before and is released meanwhile still counts as alive: the
    profiler does not know its size.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        result = run()
        torch.cuda.synchronize(device)
        peak, held = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
        del result
        return Live(peak - before, held - before)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler reports its own start and stop
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = run()
    del result
    all_events = profiler.profiler.kineto_results.events()
    events = sorted((e for e in all_events if e.name() == "[memory]"), key=lambda e: e.start_ns())
    levels = list(accumulate((event.nbytes() for event in events), initial=0))
    return Live(max(levels), levels[-1])
