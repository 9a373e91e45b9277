"""Makes a wheel one for this platform, with SEQ2SEQ_PREBUILT=1: it then has the native decoder,
compiled for each kind of processor. Called by hatchling, which pyproject.toml tells of it.
"""

import os
import platform
import re
import runpy
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("seq2seq", "decoding", "native")
OLDEST = 17  # the first glibc, 2.17, that such a tag may name


class PrebuiltHook(BuildHookInterface):
    """Compiles the native decoder if requested, and names the platform in the tag of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises: SystemExit on another system than Linux, or without a C compiler."""
        if os.environ.get("SEQ2SEQ_PREBUILT") != "1" or version == "editable":
            return
        compiler = shutil.which("cc")
        if platform.system() != "Linux" or platform.machine() != "x86_64" or compiler is None:
            raise SystemExit("SEQ2SEQ_PREBUILT=1 needs Linux on x86-64, and cc")
        self.folder = tempfile.mkdtemp()
        root, glibc = Path(self.root), OLDEST
        facts = runpy.run_path(str(root / NATIVE / "prebuilt.py"))
        sources = sorted(map(str, (root / NATIVE).glob("*.c")))
        for name, (options, _) in facts["PROCESSORS"].items():
            path = Path(self.folder, f"{name}.so")
            command = [compiler, *facts["FLAGS"], *options, "-o", str(path), *sources, "-lm"]
            subprocess.run(command, check=True)
            glibc = max(glibc, *newest_glibc(path.read_bytes()))
            build_data["force_include"][str(path)] = str(NATIVE / "prebuilt" / path.name)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{glibc}_x86_64"

    def finalize(self, *_: Any) -> None:
        if folder := getattr(self, "folder", None):
            shutil.rmtree(folder)


def newest_glibc(library: bytes) -> list[int]:
    """The minor versions of glibc 2 whose symbols a library refers to."""
    return [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", library)]
