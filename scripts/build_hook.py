"""A build hook of hatchling: with SEQ2SEQ_PREBUILT=1, it compiles the native decoder for each kind
of processor and adds it to the wheel, which is then for this platform only. The name of another
machine instead of 1, SEQ2SEQ_PREBUILT=aarch64, calls its cross-compiler, aarch64-linux-gnu-gcc.
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
OLDEST = 17  # minor version of the oldest glibc, 2.17, that such a tag can name


class PrebuiltHook(BuildHookInterface):
    """Compiles the native decoder if requested, and names the platform in the tag of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the decoder. Raises: SystemExit if this is not Linux, or without a C compiler."""
        wanted = os.environ.get("SEQ2SEQ_PREBUILT", "0")
        if wanted == "0" or version == "editable":
            return
        root, glibc = Path(self.root), OLDEST
        facts = runpy.run_path(str(root / NATIVE / "prebuilt.py"))
        machine = platform.machine() if wanted == "1" else wanted
        command = "cc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc"
        compiler, processors = shutil.which(command), facts["PROCESSORS"].get(machine)
        if platform.system() != "Linux" or processors is None or compiler is None:
            known = " or ".join(facts["PROCESSORS"])
            raise SystemExit(
                f"SEQ2SEQ_PREBUILT={wanted} should be 1 or a machine, {known}, and needs Linux and "
                f"{command}: for a machine that is not this one, apt install gcc-aarch64-linux-gnu"
            )
        self.folder = tempfile.mkdtemp()
        sources = sorted(map(str, (root / NATIVE / "csrc").glob("*.c")))
        for name, (options, _) in processors.items():
            path = Path(self.folder, f"{name}.so")
            words = [compiler, *facts["FLAGS"], *options, "-o", str(path), *sources, "-lm"]
            subprocess.run(words, check=True)
            glibc = max(glibc, *newest_glibc(path.read_bytes()))
            build_data["force_include"][str(path)] = str(NATIVE / "prebuilt" / path.name)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{glibc}_{machine}"

    def finalize(self, *_: Any) -> None:
        if folder := getattr(self, "folder", None):
            shutil.rmtree(folder)


def newest_glibc(library: bytes) -> list[int]:
    """The minor versions of glibc 2 whose symbols a library uses."""
    return [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", library)]
