"""Packages that only some exports and imports need."""

from importlib import import_module
from typing import Any

from seq2seq.errors import ConfigError


def import_library(name: str) -> Any:
    """A package, or a module of it. Raises: ConfigError with what to type if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ConfigError(
            f"the package {package} is not installed: pip install {package}"
        ) from error
