"""What the process is given by its machine: threads, cores, signals, encodings. Needs no torch."""

import codecs
import ctypes
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Of malloc.h: large blocks that stand alone, at most; bytes above which the rest is given back.
M_MMAP_MAX, M_TRIM_THRESHOLD = -4, -1


def wait_briefly() -> None:
    """Let idle OpenMP threads spin for a moment, then sleep, unless the user has decided otherwise.

    To be called before torch is imported. GNU's default spins long: on a machine that is shared,
    two threads that wait for each other's core make an update ten to a hundred times slower.
    OMP_WAIT_POLICY=PASSIVE never spins, and waking up is so dear that the second thread of two
    gains nothing on small tensors. Measured with an update of a small Transformer on two cores,
    seconds idle and beside a busy neighbour: default 0.22 and 2 to 3, passive 0.36 and 0.40, this
    0.26 and 0.55.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "4000"


def keep_few_kernels() -> None:
    """Let oneDNN keep the 32 kernels that it used last, unless the user has decided otherwise.

    To be called before torch is imported, where batches of many shapes are to come, as in training.
    oneDNN writes a kernel for each shape of a product in bfloat16, and keeps 1,024 of them. Layers
    share those of a batch, 20 or so; those of other batches never come again before they are
    forgotten. Each lies where it was made, between tensors, so memory that is freed falls into ever
    more gaps, and finding one takes ever longer. Figures: docs/results.md.
    """
    if not {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY"} & os.environ.keys():
        os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = "32"


def keep_memory() -> None:
    """Let what is freed be used again by this process, without a detour through the system.

    By default the C library of GNU asks the system for every large tensor and gives it back when it
    is freed. A decoding step frees all it made, and each page of memory that the next one gets is
    emptied first: with a beam of 5 and 8,000 pieces, a tenth of the time. Now the process keeps up
    to 1 GiB that it does not use. Other C libraries are left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**30)


def usable_cores() -> int:
    """CPU cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_first() -> bool:
    """Is this the first of a run's processes? Asked before any of them can ask another."""
    named = ["RANK"] if "RANK" in os.environ else ["LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"]
    return not any(int(os.environ.get(name, 0)) for name in named)


def training_command() -> str:
    """How training is started where this process was: in a checkout, or of an installed package."""
    return "python train.py" if os.path.basename(sys.argv[0]) == "train.py" else "seq2seq train"


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until this is over. A process that is started meanwhile never hears of it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def quiet_interrupt() -> Iterator[None]:
    """Ctrl-C inside ends the process with code 130 and without a traceback.

    In the middle of an import it does so at once: libraries take the KeyboardInterrupt that Python
    would raise there for another error, or lose it. A process that ignores Ctrl-C, as one in the
    background of a script, goes on ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    try:
        yield
    except KeyboardInterrupt:
        # Whoever presses again, because it takes a moment, does not interrupt the tidying up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(130)


def _interrupted(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(128 + number)
        frame = frame.f_back
    raise KeyboardInterrupt


def use_utf8() -> None:
    """Let arguments, names of files and what is printed be UTF-8, whatever the locale says.

    Where the locale knows ASCII only (C, with Python's UTF-8 mode switched off), the process begins
    again in that mode: Python chose the encoding of names before this was asked. What is no
    character, as in the name of a file that is not UTF-8, is printed as an escape.
    """
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii" and (
        os.environ.get("PYTHONUTF8") != "1"
    ):
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
