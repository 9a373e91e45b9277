"""English names of languages, and language detection."""

import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

from seq2seq.base.errors import ConfigError
from seq2seq.text.languages import (
    language_code,
    letters_outside,
    likeness,
    read_language,
    scripts_of,
)

LANGUAGES = (
    "ar Arabic, bg Bulgarian, cs Czech, da Danish, de German, el Greek, en English, "
    "es Spanish, et Estonian, fa Persian, fi Finnish, fr French, he Hebrew, hi Hindi, "
    "hr Croatian, hu Hungarian, id Indonesian, is Icelandic, it Italian, ja Japanese, "
    "ko Korean, lt Lithuanian, lv Latvian, nb Norwegian, nl Dutch, pl Polish, pt Portuguese, "
    "ro Romanian, ru Russian, sk Slovak, sl Slovenian, sv Swedish, th Thai, tr Turkish, "
    "uk Ukrainian, vi Vietnamese, zh Chinese"
)
NAMES = dict(each.split() for each in LANGUAGES.split(", "))  # English name by code
VARIANTS = {"Hans": "simplified", "Hant": "traditional"}
NO_DETECTOR = "detecting languages needs py3langid: pip install 'seq2seq-attention-zoo[detect]'"
# A language that is no candidate is detected if it is so much more probable than the best one.
FOREIGN_RATIO = 100
MAX_CHARACTERS = 1000  # of a text that are read to detect its language
TAG = re.compile("<[^<>]*>")


class DetectedLanguage(NamedTuple):
    """A language, and its probability among all that the detector knows; 0 if unknown."""

    language: str
    confidence: float


def english_name(code: str) -> str:
    """The English name of a language with its variant; the code itself if the name is unknown."""
    language = read_language(code)
    variant = language.tag.removeprefix(language.code).strip("-")
    name = NAMES.get(language.code, code)
    return f"{name} ({VARIANTS.get(variant, variant)})" if variant and name != code else name


def detect(text: str, candidates: Sequence[str], *, html: bool = False) -> DetectedLanguage:
    """The language of a text: the most probable candidate, or another language if that is much more
    probable, which never happens for short or ambiguous texts.

    Args:
        candidates: Codes of languages.
        html: True if the text has tags, which are ignored.

    Raises: ConfigError if there are several candidates, and the detector is not installed or knows
        none of them.
    """
    detector = load_detector()
    text = TAG.sub(" ", text)[:MAX_CHARACTERS] if html else text[:MAX_CHARACTERS]
    found = detector.rank(text) if detector else []
    # Some labels of the detector are variants; a language is as probable as its likeliest variant.
    probabilities = {language_code(label): value for label, value in reversed(found)}
    probabilities.pop("zxx", None)  # the code for "not a language"
    known = [code for code in candidates if language_code(code) in probabilities]
    if not known:
        if len(set(candidates)) == 1:
            return DetectedLanguage(candidates[0], 0.0)
        unknown = f"the detector knows none of {', '.join(candidates)}: name the source language"
        raise ConfigError(unknown if detector else NO_DETECTOR)
    best = max(known, key=lambda code: (probabilities[language_code(code)], fits(text, code)))
    likely = max(probabilities, key=probabilities.__getitem__)
    value = probabilities[language_code(best)]
    if probabilities[likely] >= FOREIGN_RATIO * value and len(known) == len(candidates):
        best, value = likely, probabilities[likely]
    if language_code(best) == "zh" and (script := chinese_script(text)):
        fitting = [code for code in known if likeness(code, f"zh-{script}")]
        best = next(iter(fitting), f"zh-{script}")
    elif not fits(text, best):
        code = language_code(best)
        variants = [f"{code}-{script}" for script in sorted(scripts_of(code))]
        best = next((read_language(each).tag for each in variants if fits(text, each)), best)
    return DetectedLanguage(best, float(value))


def fits(text: str, code: str) -> int:
    """2 if most letters of a text are in the script of a language, 1 if in a usual one, else 0."""
    language, letters = read_language(code), sum(map(str.isalpha, text))
    scripts = scripts_of(f"{language.code}-{language.script}"), scripts_of(code)
    return sum(2 * len(letters_outside(each).findall(text)) <= letters for each in scripts)


def chinese_script(text: str) -> str:
    """`Hans` or `Hant`, by the characters that only one of them has; empty if undecided."""
    chinese = re.sub("[^\u4e00-\u9fff]", "", text)
    simple, traditional = (len(chinese.encode(code, "ignore")) for code in ("gb2312", "big5"))
    return "" if simple == traditional else "Hans" if simple > traditional else "Hant"


def check_detector(sources: Collection[str]) -> None:
    """Load the detector. Raises: ConfigError if it is needed but not installed."""
    if load_detector() is None and len(sources) > 1:
        raise ConfigError(NO_DETECTOR)


@cache
def load_detector() -> Any:
    """The language detector; None if it is not installed."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        return None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
