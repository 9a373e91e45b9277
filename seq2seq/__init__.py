"""Sequence-to-sequence models in which every attention is configurable.

`Translator.load(path).translate(["..."])` is the whole Python interface to a trained model. It is
imported on first use, so that `seq2seq --help` and configuration errors do not wait for torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2seq.translation.translator import Translator

__version__ = "0.1.0"
__all__ = ["Translator", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Translator":
        from seq2seq.translation.translator import Translator

        return Translator
    raise AttributeError(f"module 'seq2seq' has no attribute {name!r}")
