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


SURE = 100  # times as probable as every served language, a language is believed that is not served
TAG = re.compile("<[^<>]*>")
READ = 1000  # characters from which the language of a text shows


class Detected(NamedTuple):
    """A language, and its probability among all that the detector knows; 0 = nothing is known."""

    language: str
    confidence: float


def name_of(code: str) -> str:
    """The English name of a language; the code itself if it is not known."""
    return NAMES.get(code, code)


def detect(text: str, languages: Sequence[str], *, html: bool = False) -> Detected:
    """The one of some languages that a text is most probably in; or another one, if the text is
    much more probably in that, which no short or ambiguous text is.

    Args:
        html: the text has tags, which do not count.

    Raises: ConfigError if there are several and no detector is installed, or it knows none of them.
    """
    detector = load_detector()
    text = TAG.sub(" ", text)[:READ] if html else text[:READ]
    shares = dict(detector.rank(text)) if detector else {}
    shares.pop("zxx", None)  # no language
    known = [code for code in languages if code in shares]
    if not known:
        if len(set(languages)) == 1:
            return Detected(languages[0], 0.0)
        unknown = f"the detector knows none of {', '.join(languages)}: name the source"
        raise ConfigError(unknown if detector else NO_DETECTOR)
    best, likely = max(known, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    if len(known) == len(languages) and shares[likely] >= SURE * shares[best]:
        best = likely
    return Detected(best, float(shares[best]))


@cache
def load_detector() -> Any:
    """The detector of languages; None if it is not installed."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        return None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
