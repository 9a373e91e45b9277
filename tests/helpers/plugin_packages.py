"""Plug-ins as pip installs them: a package, and beside it a folder with its entry points."""

from collections.abc import Mapping
from pathlib import Path


def install(
    site: Path,
    package: str,
    entry_points: Mapping[str, str],
    files: Mapping[str, str] | None = None,
) -> None:
    """Install a package into a folder, for example `leaky` as `leaky-plugin 0.1`.

    Args:
        site: a folder that is, or will be, on sys.path.
        entry_points: `attention.leaky` -> `leaky:Leaky`.
        files: contents of the package, by paths inside it.
    """
    metadata = site / f"{package}_plugin-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}-plugin\nVersion: 0.1\n"
    )
    lines = []
    for declared, value in entry_points.items():
        kind, _, name = declared.partition(".")
        lines += [f"[seq2seq.{kind}]", f"{name} = {value}"]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for name, text in {"__init__.py": "", **(files or {})}.items():
        path = site / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
