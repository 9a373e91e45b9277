"""Sequence-to-sequence models whose every attention is a choice.

`Translator.load(path).translate(["..."])` is the whole Python interface for a trained model; it is
imported on first use, so that `seq2seq --help` and errors of configuration do not wait for torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2seq.translator import Translator

__version__ = "0.1.0"
__all__ = ["Translator", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Translator":
        from seq2seq.translator import Translator

        return Translator
    raise AttributeError(f"module 'seq2seq' has no attribute {name!r}")
