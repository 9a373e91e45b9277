"""Imports of a package that wait until a name is first used."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_imports(package: str, file: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package that imports its public names under `TYPE_CHECKING` only.

    A name is imported from where the file says, when it is first asked for. So the statements that
    type checkers read are all there is to write.

    Args:
        package: `__name__` of the package.
        file: its `__file__`.
    """

    def import_name(name: str) -> Any:
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and name in (alias.name for alias in node.names):
                return getattr(import_module(node.module or package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return import_name
