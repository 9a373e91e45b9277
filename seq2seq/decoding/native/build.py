"""Build the native library, and cache it in a folder of the user. It is a copy of a prebuilt
library, or is compiled by the system's compiler when first needed.

The name of a cached library identifies its sources, flags, compiler (or prebuilt library),
processor, content, and the test (`self_test`) that it passed in another process. A library is
loaded only if all of these are unchanged.
"""

import hashlib
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2seq.base.durable import remove
from seq2seq.base.errors import Seq2SeqError
from seq2seq.decoding.native import prebuilt

PACKAGE = Path(__file__).parent
SOURCES = PACKAGE / "csrc"
IS_ARM = platform.machine() in ("aarch64", "arm64")  # as Linux and macOS call it
FLAGS = [*prebuilt.FLAGS, "-mcpu=native" if IS_ARM else "-march=native"]
TIMEOUT = 300  # seconds in which the compiler should end, and the test say that it goes on
# Another process tests the library first, so that a crash does no harm.
TEST = "import sys; sys.path[:] = sys.argv[2:]; from seq2seq.decoding.native import self_test; "
TEST += "sys.exit(self_test.main(sys.argv[1]))"
HOUR, MONTH = 3600, 30 * 24 * 3600  # seconds


class UnavailableError(Seq2SeqError):
    """Native code is unavailable; the message explains why."""


def cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "seq2seq" / "native"


def build_library(folder: Path | None = None) -> Path:
    """The tested library, from the cache or built now.

    Raises: UnavailableError if it cannot be built, or its test fails.
    """
    try:
        origin = find_origin()
        folder = cache_folder() if folder is None else folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise UnavailableError(f"{folder} should be a folder of your own, with mode 0700")
        key = library_key(origin)
        if path := find_library(folder, key):
            return path
        with lock(folder):
            return find_library(folder, key) or add_library(origin, folder, key)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        raise UnavailableError(f"{type(error).__name__}: {error}") from error


def find_origin() -> Path:
    """The path of a prebuilt library for this processor, or else of the system's compiler.

    Raises: UnavailableError if there is neither.
    """
    compiler = shutil.which("cc")
    origin = prebuilt.find_prebuilt() or (None if compiler is None else Path(compiler).resolve())
    if origin is None:
        raise UnavailableError("no C compiler: cc is not found")
    return origin


def is_built() -> bool:
    """True if the library for this machine is in the cache."""
    try:
        return find_library(cache_folder(), library_key(find_origin())) is not None
    except UnavailableError:
        return False


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Wait until no other process compiles in a folder, for at most `TIMEOUT` seconds."""
    import fcntl  # not on Windows

    file, end = os.open(folder, os.O_RDONLY), time.monotonic() + TIMEOUT
    try:
        while time.monotonic() < end:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.1)
        yield
    finally:
        os.close(file)


def find_library(folder: Path, key: str) -> Path | None:
    """The library with a key and unchanged content; None if it is not in the folder."""
    for path in sorted(folder.glob(f"{key}-*.so")):
        with suppress(OSError):  # not readable
            if path.is_file() and path.stem == f"{key}-{short_digest(path.read_bytes())}":
                if time.time() - path.stat().st_mtime > HOUR:
                    os.utime(path)  # mark it as used, for `clean`
                return path
    return None


def clean(folder: Path, key: str) -> None:
    """Remove damaged libraries with this key, and old files of other versions and killed compilers.
    Recent files stay: other processes may be at work, and other machines may share the folder.
    """
    for path in folder.iterdir():
        age = time.time() - path.lstat().st_mtime
        if path.name.startswith(f"{key}-") or age > (MONTH if path.suffix == ".so" else HOUR):
            with suppress(OSError):  # it may belong to somebody else
                remove(path)


def library_key(origin: Path) -> str:
    """A digest of everything that a library depends on: the processor, the compiler (or prebuilt
    library), the flags, the sources and their test.
    """
    cpu = Path("/proc/cpuinfo")
    about = [platform.machine(), platform.processor(), str(origin), *FLAGS]
    about += sorted(prebuilt.processor_flags())
    if not cpu.exists():
        about.append(platform.node())
    else:
        first = cpu.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
        about += [line for line in first.splitlines() if "MHz" not in line]
    about += [str(origin.stat().st_size), str(origin.stat().st_mtime_ns)]
    sources = [*sorted(SOURCES.glob("*.[ch]")), PACKAGE / "self_test.py"]
    about += [source.read_text(encoding="utf-8") for source in sources]
    return short_digest("\0".join(about).encode())


def short_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def add_library(origin: Path, folder: Path, key: str) -> Path:
    """Compile or copy a library, test it, and store it under its key."""
    with TemporaryDirectory(dir=folder) as temporary:
        path = Path(temporary, "native.so")
        if origin.suffix == ".so":
            shutil.copyfile(origin, path)
        else:
            sources = sorted(str(source) for source in SOURCES.glob("*.c"))
            command = [str(origin), *FLAGS, "-o", str(path), *sources, "-lm"]
            run(command, temporary, "the C compiler")
        if not path.is_file():
            raise UnavailableError("the C compiler wrote nothing")
        test = [sys.executable, "-I", "-c", TEST, str(path), str(PACKAGE.parents[2]), *sys.path]
        run(test, temporary, "the test of the native code", reason=-1)  # after warnings of torch
        clean(folder, key)
        final = folder / f"{key}-{short_digest(path.read_bytes())}.so"
        with path.open("rb") as written:
            os.fsync(written.fileno())
        path.replace(final)
    return final


def run(command: list[str], folder: str, name: str, reason: int = 0) -> None:
    """Run a command.

    Args:
        reason: index of the line of its output that says why it failed.

    Raises: UnavailableError if it fails, or hangs: see `await_end`.
    """
    log = Path(folder, "log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
        )
        try:
            code = await_end(process, log)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise UnavailableError(f"{name} said nothing for {TIMEOUT} s") from error
            raise
    if code:
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no word"]
        raise UnavailableError(f"{name} failed with code {code}: {said[reason]}")


def await_end(process: subprocess.Popen[bytes], log: Path) -> int:
    """Wait for a process, however slow the processor, as long as its log grows.

    Returns: its exit code. Raises: TimeoutExpired if it writes nothing for `TIMEOUT` seconds.
    """
    while True:
        written = log.stat().st_size
        try:
            return process.wait(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            if log.stat().st_size == written:
                raise
