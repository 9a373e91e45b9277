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


def test_each_library_is_compiled_from_all_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hatchling = ModuleType("hatchling.builders.hooks.plugin.interface")
    hatchling.BuildHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, hatchling.__name__, hatchling)
    (tmp_path / "cc").write_text(COMPILER)
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SEQ2SEQ_PREBUILT", "1")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    hook = runpy.run_path(str(ROOT / "scripts/build_hook.py"))["PrebuiltHook"]()
    hook.root = str(ROOT)
    wheel: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", wheel)
    try:
        names = [Path(name).stem for name in wheel["force_include"].values()]
        assert names == [*prebuilt.PROCESSORS]
        sources = {str(path) for path in build.SOURCES.glob("*.c")}
        assert sources
        for library in wheel["force_include"]:
            assert {*Path(library).read_text().split()} >= sources
    finally:
        hook.finalize()
