"""Sequence-to-sequence models in which every attention is configurable.

`Translator.load(path).translate(["..."])` is the whole Python interface to a trained model. The
names of docs/api.md are here, each imported on first use, so that `seq2seq --help` and
configuration errors do not wait for torch.
"""

from typing import TYPE_CHECKING

from seq2seq.base.lazy import lazy_imports

if TYPE_CHECKING:
    from seq2seq.attention.base import Attention, Place, Role, TokenAttention
    from seq2seq.attention.multihead import MultiHead
    from seq2seq.base.errors import Seq2SeqError
    from seq2seq.functional import attend, flash_attention, fused_attention, masked_softmax
    from seq2seq.testing import check_mechanism
    from seq2seq.translation.request import TranslationRequest
    from seq2seq.translation.translator import Translator

__version__ = "0.1.0"
__all__ = [
    "Attention",
    "MultiHead",
    "Place",
    "Role",
    "Seq2SeqError",
    "TokenAttention",
    "TranslationRequest",
    "Translator",
    "__version__",
    "attend",
    "check_mechanism",
    "flash_attention",
    "fused_attention",
    "masked_softmax",
]
__getattr__ = lazy_imports(__name__, __file__)
