"""Whatever the compiler and the cache do, the result is a tested library or a reason."""

import ctypes
import os
import platform
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from ctypes import CDLL
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.native_code import needs_native

from seq2seq.decoding import native
from seq2seq.decoding.native import build, prebuilt
from seq2seq.decoding.native.build import UnavailableError
from seq2seq.decoding.native.layout import HEADER

pytestmark = needs_native


@pytest.fixture
def quick(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the sources by empty functions, which compile at once and are only loaded."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "nothing.c").write_text("".join(f"void {f}(void) {{}}\n" for f in HEADER.functions))
    monkeypatch.setattr(build, "SOURCES", folder)
    # Export the functions, since there are no declarations of native.h that do so.
    seen = [flag for flag in prebuilt.FLAGS if flag != "-fvisibility=hidden"]
    monkeypatch.setattr(prebuilt, "FLAGS", seen)
    monkeypatch.setattr(build, "FLAGS", [*seen, "-march=native"])
    monkeypatch.setattr(build, "TEST", "import ctypes, sys; ctypes.CDLL(sys.argv[1])")


def compiler(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a script named cc before the system's compiler in PATH."""
    folder.mkdir()
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_compiled_library_is_kept_for_its_user_only(tmp_path: Path, quick: None) -> None:
    folder = tmp_path / "a" / "cache"
    path = build.build_library(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    before = path.stat().st_mtime_ns
    assert build.build_library(folder) == path and path.stat().st_mtime_ns == before
    assert [each.name for each in folder.iterdir()] == [path.name]


def test_a_damaged_object_is_compiled_again(tmp_path: Path, quick: None) -> None:
    path = build.build_library(tmp_path / "cache")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert build.build_library(tmp_path / "cache").read_bytes() == content


def test_simultaneous_builds_give_one_library(tmp_path: Path, quick: None) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = set(pool.map(build.build_library, [tmp_path / "cache"] * 2))
    assert len(found) == 1 and list((tmp_path / "cache").iterdir()) == [*found]


def test_a_lock_that_is_held_too_long_is_ignored(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with build.lock(tmp_path):
        before = time.monotonic()
        monkeypatch.setattr(build, "TIMEOUT", 0.3)
        with build.lock(tmp_path):
            assert time.monotonic() - before >= 0.3


@pytest.mark.parametrize("name", ["processor", "FLAGS"])
def test_an_object_of_another_processor_or_other_flags_is_not_loaded(
    name: str, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        if name == "processor":
            patch.setattr(platform, name, lambda: "another")
        else:
            patch.setattr(build, name, [*build.FLAGS, "-DANOTHER"])
        other = build.build_library(tmp_path / "cache")
    assert build.build_library(tmp_path / "cache") != other


@pytest.mark.parametrize(
    "script, reason",
    [
        ("echo 'it is broken' >&2; exit 3", "code 3: it is broken"),
        ("exit 0", "wrote nothing"),
        ("while [ $1 != -o ]; do shift; done; echo garbage > $2", "the test of the native code"),
        ("sleep 100 & wait", "said nothing for 1 s"),
    ],
)
def test_a_compiler_that_fails_hangs_or_lies_is_reported(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path / "bin", script, monkeypatch)
    monkeypatch.setattr(build, "TIMEOUT", 1)
    with pytest.raises(UnavailableError, match=reason):
        build.build_library(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.slow
def test_an_object_that_crashes_or_lacks_functions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = "__attribute__((constructor)) static void f(void) { *(volatile int *)0; }"
    for i, (text, reason) in enumerate([(crash, "code -11"), ("int none;", "undefined symbol")]):
        source = tmp_path / f"{i}.c"
        source.write_text(text)
        script = f'while [ $1 != -o ]; do shift; done; {real()} -shared -fPIC -o "$2" {source}'
        compiler(tmp_path / f"bin{i}", script, monkeypatch)
        with pytest.raises(UnavailableError, match=f"the test of the native code failed.*{reason}"):
            build.build_library(tmp_path / "cache")


BAD_ENTRIES = {
    "a folder": lambda path: path.mkdir(),
    "a folder with files": lambda path: (path.mkdir(), (path / "file").touch()),
    "garbage": lambda path: path.write_bytes(b"garbage"),
    "a pipe": lambda path: os.mkfifo(path),
    "a link to nowhere": lambda path: path.symlink_to(path.with_name("nowhere")),
}


@pytest.mark.parametrize("name", BAD_ENTRIES)
def test_anything_else_with_the_name_of_a_library_is_replaced(
    name: str, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = build.cache_folder()
    path = build.build_library()
    content = path.read_bytes()
    path.unlink()
    BAD_ENTRIES[name](path)
    assert not build.is_built()
    assert isinstance(native.load_once.__wrapped__(), CDLL)
    assert [each.read_bytes() for each in folder.iterdir()] == [content]


@pytest.mark.parametrize("text", ["", "int none;"])
def test_a_library_without_the_functions_is_compiled_again(
    text: str, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name matches its content, so only loading it shows what is missing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = build.build_library()
    (tmp_path / "other.c").write_text(text)
    other = tmp_path / "other.so"
    command = [real(), "-shared", "-o", str(other), str(tmp_path / "other.c")]
    subprocess.run(command, check=True)
    content = other.read_bytes() if text else b"garbage"
    key = path.stem.partition("-")[0]
    path.unlink()
    path.with_name(f"{key}-{build.short_digest(content)}.so").write_bytes(content)
    assert build.is_built()
    assert isinstance(native.load_once.__wrapped__(), CDLL)
    assert list(path.parent.iterdir()) == [path]


def test_old_files_in_the_cache_are_removed(tmp_path: Path, quick: None) -> None:
    now, day = time.time(), 24 * 3600
    kept = {"tmpnew": now - 60, "older-version.so": now - 20 * day}
    for name, modified in {**kept, "tmpold": now - day, "old-version.so": now - 40 * day}.items():
        path = tmp_path / name
        if path.suffix:
            path.touch()
        else:
            path.mkdir()
            (path / "native.so").touch()
        os.utime(path, (modified, modified))
    tmp_path.chmod(0o700)
    made = build.build_library(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*kept, made.name}


def test_a_library_that_is_used_counts_as_new(tmp_path: Path, quick: None) -> None:
    path = build.build_library(tmp_path / "cache")
    os.utime(path, (0, 0))
    assert build.build_library(tmp_path / "cache") == path
    assert time.time() - path.stat().st_mtime < 600


def real() -> str:
    return next(
        str(Path(folder, "cc"))
        for folder in os.environ["PATH"].split(":")
        if Path(folder, "cc").exists() and "pytest" not in folder
    )


def test_without_a_compiler_the_reason_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="no C compiler"):
        build.build_library(tmp_path / "cache")


def test_a_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    (tmp_path / "file").touch()
    for folder in (shared, link, tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UnavailableError):
            build.build_library(folder)
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UnavailableError, match="folder of your own"):
        build.build_library(mine)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path / "bin", "echo 'no space left on device' > /dev/full || exit 1", monkeypatch)
    with pytest.raises(UnavailableError, match="the C compiler failed"):
        build.build_library(tmp_path / "cache")


@pytest.mark.parametrize("call", ["mkdir", "replace"])
def test_a_cache_that_cannot_be_written_is_reported(
    call: str, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, call, refuse)
    with pytest.raises(UnavailableError, match="Read-only"):
        build.build_library(tmp_path)


def test_the_native_decoder_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQ2SEQ_NATIVE", "0")
    assert native.unavailable_reason() == "SEQ2SEQ_NATIVE=0"
    with pytest.raises(UnavailableError, match="SEQ2SEQ_NATIVE=0"):
        native.load_library()


def test_a_slow_test_of_a_library_may_go_on_as_long_as_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "TIMEOUT", 0.5)
    seconds = "for i in 1 2 3 4 5 6; do echo; sleep 0.3; done; exit 5"
    with pytest.raises(UnavailableError, match="failed with code 5"):
        build.run(["sh", "-c", seconds], str(tmp_path), "it")
    with pytest.raises(UnavailableError, match="it said nothing"):
        build.run(["sh", "-c", "echo; sleep 100"], str(tmp_path), "it")


def compile_prebuilt(folder: Path, name: str) -> None:
    options, _ = next(each[name] for each in prebuilt.PROCESSORS.values() if name in each)
    sources = map(str, build.SOURCES.glob("*.c"))
    path = str(folder / f"{name}.so")
    subprocess.run([real(), *prebuilt.FLAGS, *options, "-o", path, *sources, "-lm"], check=True)


def test_without_a_compiler_the_library_of_the_package_is_tested_and_used(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    smallest, needed = {"x86_64": ("x86-64-v3", prebuilt.V3), "aarch64": ("armv8-a", "asimd")}[
        platform.machine()
    ]
    if not prebuilt.processor_flags().issuperset(needed.split()):
        pytest.skip(f"this processor lacks some of {needed}, which the smallest library needs")
    compile_prebuilt(tmp_path, smallest)
    monkeypatch.setattr(prebuilt, "FOLDER", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert not build.is_built()
    assert isinstance(native.load_once.__wrapped__(), CDLL)
    assert build.is_built()
    (tmp_path / f"{smallest}.so").write_bytes(b"garbage")  # the wheel was damaged, or upgraded
    with pytest.raises(UnavailableError, match="the test of the native code"):
        build.build_library()


def test_the_best_library_that_a_processor_can_execute_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prebuilt, "FOLDER", tmp_path)
    assert prebuilt.find_prebuilt() is None  # a checkout
    for name in (name for each in prebuilt.PROCESSORS.values() for name in each):
        (tmp_path / f"{name}.so").touch()
    cases = [
        ("x86_64", f"{prebuilt.V4} avx512_vnni", "x86-64-v4-vnni"),
        ("x86_64", prebuilt.V4, "x86-64-v4"),
        ("x86_64", prebuilt.V3, "x86-64-v3"),
        ("x86_64", "sse2", None),
        ("aarch64", "fp asimd asimddp", "armv8.2-a-dotprod"),
        ("aarch64", "fp asimd", "armv8-a"),
        ("aarch64", "fp", None),
        ("riscv64", prebuilt.V4, None),
    ]
    for machine, flags, name in cases:
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        monkeypatch.setattr(prebuilt, "processor_flags", lambda flags=flags: {*flags.split()})
        path = prebuilt.find_prebuilt()
        assert (path and path.stem) == name
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert prebuilt.find_prebuilt() is None


def test_features_are_asked_of_the_system_or_read_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of an emulated machine is that of its host, so the system goes first."""
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nflags\t: sse avx2\n\nprocessor\t: 1\nflags\t: sse\n")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert prebuilt.processor_flags(file) == {"sse", "avx2"}
    assert prebuilt.processor_flags(tmp_path / "missing") == set()
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")

    def getauxval(kind: int) -> int:
        """The bits of a processor with floats (0), vectors (1) and dot products (20)."""
        return 0b11 | 1 << 20 if kind == 16 else 0

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(getauxval=getauxval))
    assert prebuilt.processor_flags(file) == {"asimd", "asimddp"}
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    file.write_text("processor\t: 0\nFeatures\t: fp asimd asimddp\n")
    assert prebuilt.processor_flags(file) == {"fp", "asimd", "asimddp"}


def test_without_cpuinfo_a_library_is_of_its_machine(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path.name != "cpuinfo" and exists(path))
    origin = build.find_origin()
    here = build.library_key(origin)
    assert build.library_key(origin) == here
    monkeypatch.setattr(platform, "node", lambda: "another")
    assert build.library_key(origin) != here
