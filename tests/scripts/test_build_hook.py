"""The wheel for a platform contains the whole native decoder."""

import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from seq2seq.decoding.native import build, prebuilt

ROOT = Path(__file__).resolve().parents[2]
# Writes what it was told into the library, instead of compiling.
COMPILER = """#!/bin/sh
told="$*"
while [ "$1" != -o ]; do shift; done
echo "$told GLIBC_2.17" > "$2"
"""


def build_hook(wanted: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hook on a Linux machine with that value of SEQ2SEQ_PREBUILT."""
    hatchling = ModuleType("hatchling.builders.hooks.plugin.interface")
    hatchling.BuildHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, hatchling.__name__, hatchling)
    monkeypatch.setenv("SEQ2SEQ_PREBUILT", wanted)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: machine)
    hook = runpy.run_path(str(ROOT / "scripts/build_hook.py"))["PrebuiltHook"]()
    hook.root = str(ROOT)
    return hook


@pytest.mark.parametrize(
    "wanted, machine, compiler",
    [
        ("1", "x86_64", "cc"),
        ("1", "aarch64", "cc"),
        ("aarch64", "aarch64", "aarch64-linux-gnu-gcc"),
    ],
)
def test_each_library_is_compiled_from_all_sources(
    wanted: str, machine: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / compiler).write_text(COMPILER)
    (tmp_path / compiler).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    hook = build_hook(wanted, machine if wanted == "1" else "x86_64", monkeypatch)
    wheel: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", wheel)
    try:
        names = [Path(name).stem for name in wheel["force_include"].values()]
        assert names == [*prebuilt.PROCESSORS[machine]]
        assert wheel["tag"] == f"py3-none-manylinux_2_17_{machine}"
        sources = {str(path) for path in build.SOURCES.glob("*.c")}
        assert sources
        for library in wheel["force_include"]:
            assert {*Path(library).read_text().split()} >= sources
    finally:
        hook.finalize()


@pytest.mark.parametrize(
    "wanted, machine, reason",
    [
        ("1", "riscv64", "x86_64 or aarch64"),
        ("yes", "x86_64", "SEQ2SEQ_PREBUILT=yes should be 1 or a machine, x86_64 or aarch64"),
        ("aarch64", "x86_64", "aarch64-linux-gnu-gcc"),
        ("1", "aarch64", "needs Linux and cc"),
    ],
)
def test_a_machine_without_libraries_or_compiler_is_refused(
    wanted: str, machine: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    hook = build_hook(wanted, machine, monkeypatch)
    wheel: dict[str, Any] = {"force_include": {}}
    with pytest.raises(SystemExit, match=reason):
        hook.initialize("standard", wheel)
    hook.finalize()
    assert wheel == {"force_include": {}}
