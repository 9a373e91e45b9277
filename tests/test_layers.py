"""The plan of the package: what may import what, and how much code there is.

Every module imports from lower floors or its own package only. Imports are read with `ast`, so one
counts wherever it stands, inside a function too.
"""

import ast
import io
import re
import symtable
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "seq2seq"

# What stands on which floor. Siblings on one floor do not import each other.
FLOORS = {
    "__main__": 9,
    "cli": 8,
    "serving": 7,  # a service
    "comparison": 7,  # runs that differ in their attention
    "training": 6,
    "interchange": 6,  # models of other programs
    "translation": 6,  # texts, as requests to decode their sentences
    "checkpoint": 5,
    "pages": 5,  # pictures and HTML
    "decoding": 4,
    "metrics": 4,
    "testing": 4,  # the contract of attention, also for plug-ins
    "models": 3,
    "attention": 2,
    "data": 2,
    "functional": 1,  # formulas, and kernels for GPUs
    "text": 1,  # languages, tokenization, documents
    "alignment": 1,
    "base": 0,
    "__init__": 0,
}

# Modules that only keep a public name importable (docs/plugins.md).
PUBLIC_NAMES = {
    *("errors.py", "registry.py", "symbols.py"),
    *("tokenization/__init__.py", "tokenization/tokenizer.py", "tokenization/words.py"),
}

# Arrows that point down and are forbidden all the same.
WALLS = {("serving", "training")}

# The arrows that do not point down, or not to another floor.
ARROWS = {
    # The front door offers what stands far above it, and imports it only when it is asked for.
    *(("__init__", room) for room in ("attention", "base", "functional", "testing", "translation")),
}

# Who may use which library. Not in the list: torch and numpy, which everybody may.
LIBRARIES = {
    "lightning": {"training"},
    "torchmetrics": {"training", "metrics"},
    "hydra": {"training", "comparison"},
    "omegaconf": {"training", "comparison"},
    "sacrebleu": {"metrics", "training"},
    "matplotlib": {"pages", "comparison"},
    "tokenizers": {"text", "decoding", "data"},
    "filelock": {"data", "training"},  # one writer of a cache; one run in a folder
    "ctranslate2": {"interchange"},
    "safetensors": {"interchange"},
    "yaml": {"interchange", "serving", "training"},
    "sentencepiece": {"text"},
    "starlette": {"serving"},
    "uvicorn": {"serving"},
    "prometheus_client": {"serving"},
    "python_multipart": {"serving"},
    "py3langid": {"serving"},
    "sentencex": {"text"},
    "markdown_it": {"text"},
    "mdit_py_plugins": {"text"},
    "langcodes": {"text"},
    "regex": {"text"},
    "ray": {"cli"},
    "triton": {"functional"},
}

# Lines of code of each package: blank lines, comments and docstrings are not counted. A commit that
# raises one says why.
BUDGETS = {
    "decoding": 4929,
    "text": 3972,
    "cli": 3498,
    "training": 2973,
    "data": 2901,
    "serving": 2757,
    "attention": 2176,
    "functional": 2049,
    "C": 1909,
    "interchange": 1652,
    "comparison": 1271,
    "models": 1025,
    "translation": 832,
    "base": 673,
    "testing": 585,
    "pages": 584,
    "checkpoint": 541,
    "metrics": 463,
    "alignment": 406,
    "modules on the top level": 39,
}
LONGEST_FILE = 300

MODULES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).as_posix() not in PUBLIC_NAMES
)

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
        assert (unit, used) not in WALLS, f"{unit} never imports {used}"
        assert allowed, f"{unit} (floor {FLOORS[unit]}) imports {used} (floor {FLOORS[used]})"


@every_module
def test_heavy_libraries_stay_in_their_rooms(path: Path) -> None:
    used = {name.split(".")[0] for name in imported(path)}
    for library in used & set(LIBRARIES):
        assert unit_of(path) in LIBRARIES[library], f"{library} belongs to {LIBRARIES[library]}"


def private_names(path: Path) -> set[str]:
    """What a file defines or imports on the module's level, or imports anywhere, under a name that
    begins with one underscore.
    """
    text = path.read_text(encoding="utf-8")
    names = {
        symbol.get_name()
        for symbol in symtable.symtable(text, path.name, "exec").get_symbols()
        if symbol.is_assigned() or symbol.is_imported()
    }
    names.update(part for name in imported(path) for part in name.split("."))
    return {name for name in names if re.match("_[^_]", name)}


@every_module
def test_modules_have_no_private_names(path: Path) -> None:
    assert not private_names(path), "what a module offers is what others import"


def test_private_names_are_found_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "from a._b import c as _d\n_e: int = 1\nif c:\n    _f, __all__ = 2, []\n"
        "def _g():\n    from h import _i\n    _local = 1\nclass _J:\n    _own = _ = 2\n"
    )
    assert private_names(path) == {"_b", "_d", "_e", "_f", "_g", "_i", "_J"}


@pytest.mark.parametrize(
    ("unit", "libraries"), [("base", {"rich"}), ("functional", {"torch", "triton"})]
)
def test_the_lowest_floors_use_nothing_but_python_and_torch(unit: str, libraries: set[str]) -> None:
    allowed = {*sys.stdlib_module_names, "seq2seq"} | libraries
    files = [path for path in MODULES if unit_of(path) == unit]
    assert files
    for path in files:
        assert {name.split(".")[0] for name in imported(path)} <= allowed, path.name


def test_every_part_of_the_package_has_a_floor() -> None:
    assert {unit_of(path) for path in MODULES} <= set(FLOORS)


def lines_of_code(path: Path) -> int:
    """Lines that hold anything but comments, docstrings and white space."""
    text = path.read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in layout | {tokenize.ENDMARKER}
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - docstrings)


def test_comments_docstrings_and_blank_lines_are_no_code(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""A\nB\n"""\n\n# C\ndef f():  # D\n    """E"""\n    return """F\n\nG"""\n')
    assert lines_of_code(path) == 4


def lines_of_c(path: Path) -> int:
    """Lines that hold anything but comments and white space."""
    text = re.sub(
        r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), path.read_text(), flags=re.S
    )
    return sum(bool(line.split("//")[0].strip()) for line in text.splitlines())


def test_comments_and_blank_lines_are_no_c(tmp_path: Path) -> None:
    path = tmp_path / "code.c"
    path.write_text("/* A\n B */\nint a; // C\n\n// D\nint b; /* E */\n")
    assert lines_of_c(path) == 2


def test_every_package_keeps_to_its_budget() -> None:
    lines: Counter[str] = Counter()
    for path in MODULES:
        parts = path.relative_to(PACKAGE).parts
        lines[parts[0] if len(parts) > 1 else "modules on the top level"] += lines_of_code(path)
    lines["C"] = sum(lines_of_c(path) for path in PACKAGE.rglob("*.[ch]"))
    over = {name: count for name, count in lines.items() if count > BUDGETS.get(name, 0)}
    assert not over, f"more lines of code than BUDGETS allows: {over}"


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    lines = {path: lines_of_code(path) for path in MODULES}
    lines |= {path: lines_of_c(path) for path in PACKAGE.rglob("*.[ch]")}
    long = {path.name: count for path, count in lines.items() if count > LONGEST_FILE}
    assert not long, f"files of more than {LONGEST_FILE} lines of code: {long}"


def test_no_two_files_of_tests_share_a_name() -> None:
    """pytest imports them by name: the second would end a run that collects both."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
