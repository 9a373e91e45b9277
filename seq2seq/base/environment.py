"""Settings of the process: threads, memory, cores, signals, encodings. Does not import torch."""

import atexit
import codecs
import ctypes
import gc
import io
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

# From malloc.h: maximum number of mapped blocks; free bytes above which memory is returned.
M_MMAP_MAX, M_TRIM_THRESHOLD = -4, -1


def limit_thread_spinning() -> None:
    """Let idle OpenMP threads spin briefly, then sleep, unless the user has set how they wait.

    Call it before torch is imported. GNU's default spins long: on a shared machine, two threads
    that wait for each other's core make an update ten to a hundred times slower.
    OMP_WAIT_POLICY=PASSIVE never spins, and waking up is so expensive that the second of two
    threads gains nothing on small tensors. Seconds per update of a small Transformer on two cores,
    if they are idle, and if another process keeps them busy: 0.22 and 2 to 3 by default, 0.36 and
    0.40 with PASSIVE, 0.26 and 0.55 with this setting.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "4000"


def limit_kernel_cache() -> None:
    """Let oneDNN cache the last 32 kernels it used, unless the user has set another number.

    Call it before torch is imported if batches of many shapes follow, as in training. oneDNN
    compiles a kernel for each shape of a bfloat16 product, and caches 1,024 of them by default.
    The layers share a batch's kernels, 20 or so; kernels of other batches are evicted before they
    are needed again. Kernels are allocated between tensors, so they fragment the memory, and
    allocating takes ever longer. Figures: docs/lab/training.md.
    """
    if not {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY"} & os.environ.keys():
        os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = "32"


def keep_memory() -> None:
    """Let this process reuse freed memory, instead of returning it to the system.

    By default, glibc asks the system for every large tensor and returns it when it is freed. A
    decoding step frees all its tensors, and the system clears each page that the next one gets:
    with a beam of 5 and 8,000 pieces, that is a tenth of the time. After this call the process
    keeps up to 1 GiB of unused memory. Other C libraries are left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**30)


@contextmanager
def defer_collection() -> Iterator[None]:
    """Pause the garbage collector in the block, and exempt the objects made there for good.

    Use it for objects that live as long as the process: importing torch makes 300,000, which Python
    would search several times at the start, while it works and when it ends. That would take a
    fifth of the start-up time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def return_memory() -> None:
    """Return freed memory that glibc has kept to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def usable_cores() -> int:
    """Number of CPU cores that this process may use, perhaps fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_first_process() -> bool:
    """True in the first process of a run. Works before the processes are connected."""
    named = ["RANK"] if "RANK" in os.environ else ["LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"]
    return not any(int(os.environ.get(name, 0)) for name in named)


def training_command() -> str:
    """The command that starts training, in a checkout or an installed package."""
    return "python train.py" if os.path.basename(sys.argv[0]) == "train.py" else "seq2seq train"


def short_path(path: Path | str) -> str:
    """A path as one would type it here: relative if it is in the current folder."""
    path, here = Path(path), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def script_command(name: str) -> str:
    """The command that runs a script of scripts/, of a checkout or of an installed package."""
    package = Path(__file__).resolve().parents[1]
    paths = [folder / "scripts" / f"{name}.py" for folder in (package, package.parent)]
    script = next((path for path in paths if path.is_file()), paths[-1])
    return shlex.join([short_path(sys.executable), short_path(script)])


@contextmanager
def delay_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the block ends. A process started in the block always ignores Ctrl-C."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise TimeoutError if the block computes for longer, even within a regular expression.

    Python delivers signals to its main thread only, so there is no limit in other threads, nor
    while another such timer runs.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or any(signal.getitimer(signal.ITIMER_VIRTUAL)):
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        # CPU time, not wall-clock time: the process may be stopped, or the machine busy.
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def quick_exit() -> Iterator[None]:
    """End the process at once when the block raises SystemExit, without freeing each object.

    After torch was imported, this saves a tenth of a second.
    """
    try:
        yield
    except SystemExit as error:
        if isinstance(error.code, int) and threading.active_count() == 1:
            atexit._run_exitfuncs()
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os._exit(error.code)
        raise


@contextmanager
def quiet_interrupt() -> Iterator[None]:
    """End the process with code 130 and no traceback if Ctrl-C is pressed in the block.

    During an import it does so at once: there, libraries would swallow Python's KeyboardInterrupt
    or turn it into another error. A process that ignores Ctrl-C, such as a background process of a
    script, keeps ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handle_interrupt)
    try:
        yield
    except KeyboardInterrupt:
        # Pressing Ctrl-C again does not interrupt the cleanup.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(130)


def handle_interrupt(signum: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(128 + signum)
        frame = frame.f_back
    raise KeyboardInterrupt


def use_utf8() -> None:
    """Use UTF-8 for arguments, file names and output, whatever the locale says.

    In an ASCII locale (C, with Python's UTF-8 mode switched off) the process restarts in UTF-8
    mode: Python has already chosen the encoding of file names. Invalid characters, as in the name
    of a file that is not UTF-8, are printed as escapes.
    """
    encoding = codecs.lookup(sys.getfilesystemencoding()).name
    if encoding == "ascii" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
