"""The floors of the house: every module imports from lower floors or its own package only.

Read with `ast`, so an import counts wherever it stands, inside a function too.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "seq2seq"

# What stands on which floor. Siblings on one floor do not import each other.
FLOORS = {
    "__main__": 8,
    "cli": 7,
    "translator": 6,
    "average": 5,
    "text_stream": 5,
    "training": 5,
    "interchange": 5,
    "checkpoint": 4,
    "decoding": 4,
    "scoring": 4,
    "pages": 3,
    "models": 3,
    "attention": 2,
    "nn": 2,
    "data": 2,
    "alignment": 1,
    "metrics": 2,
    "functional": 1,
    "languages": 0,
    "errors": 0,
    "unpacked": 0,
    "tables": 0,
    "symbols": 0,
    "environment": 0,
    "durable": 0,
    "__init__": 0,
}

# The arrows that do not point down, or not to another floor.
ARROWS = {
    ("tables", "errors"),
    ("unpacked", "errors"),
    # The front door offers what stands far above it, and imports it only when it is asked for.
    ("__init__", "translator"),
}

# Who may use which library. Not in the list: torch and numpy, which everybody may.
LIBRARIES = {
    "lightning": {"training"},
    "torchmetrics": {"training", "metrics"},
    "hydra": {"training"},
    "omegaconf": {"training"},
    "sacrebleu": {"metrics", "training"},
    "matplotlib": {"pages"},
    "tokenizers": {"data"},
    "filelock": {"data", "training"},  # one writer of a cache; one run in a folder
    "ctranslate2": {"interchange"},
}

MODULES = sorted(PACKAGE.rglob("*.py"))

every_module = pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix()
)


def unit_of(path: Path) -> str:
    """The package or single module on the top level that a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """The full names of all that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute, so that they can be searched for"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def units_used(path: Path) -> set[str]:
    """The parts of this package that a file imports from."""
    names = [name.split(".") for name in imported(path)]
    ours = [parts[1:] for parts in names if parts[0] == "seq2seq"]
    return {parts[0] if parts and parts[0] in FLOORS else "__init__" for parts in ours}


@every_module
def test_every_module_imports_from_lower_floors_only(path: Path) -> None:
    unit = unit_of(path)
    for used in units_used(path) - {unit}:
        allowed = FLOORS[used] < FLOORS[unit] or (unit, used) in ARROWS
        assert allowed, f"{unit} (floor {FLOORS[unit]}) imports {used} (floor {FLOORS[used]})"


@every_module
def test_heavy_libraries_stay_in_their_rooms(path: Path) -> None:
    used = {name.split(".")[0] for name in imported(path)}
    for library in used & set(LIBRARIES):
        assert unit_of(path) in LIBRARIES[library], f"{library} belongs to {LIBRARIES[library]}"


@pytest.mark.parametrize(
    "unit",
    ["errors", "unpacked", "tables", "symbols", "environment", "durable", "functional"],
)
def test_the_lowest_floors_use_nothing_but_python_and_torch(unit: str) -> None:
    allowed = {*sys.stdlib_module_names, "seq2seq"} | ({"torch"} if unit == "functional" else set())
    files = [path for path in MODULES if unit_of(path) == unit]
    assert files
    for path in files:
        assert {name.split(".")[0] for name in imported(path)} <= allowed, path.name


def test_every_part_of_the_package_has_a_floor() -> None:
    assert {unit_of(path) for path in MODULES} <= set(FLOORS)
