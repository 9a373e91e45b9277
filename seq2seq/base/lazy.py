"""Lazy imports: a package's names are imported when they are first used."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_imports(package: str, file: str) -> Callable[[str], Any]:
    """A `__getattr__` for a package that imports its public names only under `TYPE_CHECKING`.

    A name is imported when it is first used, as the import statement for type checkers says, so
    each name is declared only once.

    Args:
        package: `__name__` of the package.
        file: `__file__` of the package.
    """

    def import_name(name: str) -> Any:
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and name in (alias.name for alias in node.names):
                return getattr(import_module(node.module or package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return import_name
