"""The languages of models, for people; and which of them a text is in."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from seq2seq.errors import ConfigError

NAMES: dict[str, str] = dict(
    re.findall(
        r"(\w+) (\w+)",
        "ar Arabic, bg Bulgarian, cs Czech, da Danish, de German, el Greek, en English, es Spanish,"
        "et Estonian, fa Persian, fi Finnish, fr French, he Hebrew, hi Hindi, hr Croatian,"
        "hu Hungarian, id Indonesian, is Icelandic, it Italian, ja Japanese, ko Korean,"
        "lt Lithuanian, lv Latvian, nb Norwegian, nl Dutch, pl Polish, pt Portuguese, ro Romanian,"
        "ru Russian, sk Slovak, sl Slovenian, sv Swedish, th Thai, tr Turkish, uk Ukrainian,"
        "vi Vietnamese, zh Chinese",
    )
)
NO_DETECTOR = (
    "the language of a text is found with py3langid: pip install 'seq2seq-attention-zoo[detect]'"
)


class Detected(NamedTuple):
    """A language, and how certain it is, from 0 to 1."""

    language: str
    confidence: float


def name_of(code: str) -> str:
    """The English name of a language; the code itself if it is not known."""
    return NAMES.get(code, code)


def detect(text: str, languages: Sequence[str]) -> Detected:
    """The one of some languages that a text is most probably in.

    Raises: ConfigError if there are several and no detector is installed, or it knows none of them.
    """
    if len(set(languages)) == 1:
        return Detected(languages[0], 1.0)
    ranked = [(code, share) for code, share in detector().rank(text) if code in languages]
    if not ranked:
        raise ConfigError(f"the detector knows none of {', '.join(languages)}: name the source")
    return Detected(ranked[0][0], ranked[0][1] / sum(share for _, share in ranked))


@cache
def detector() -> Any:
    """Raises: ConfigError if it is not installed."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise ConfigError(NO_DETECTOR) from error
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
