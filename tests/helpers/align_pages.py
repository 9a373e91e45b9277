"""Pairs to align, as files."""

from pathlib import Path

import pytest

from helpers.tiny_runs import demo_lines


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Path, Path]:
    """Two files of the same twelve sentences."""
    paths = tmp_path / "pairs.de", tmp_path / "pairs.en"
    for path in paths:
        lines = demo_lines("test", path.suffix[1:], 12)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths
