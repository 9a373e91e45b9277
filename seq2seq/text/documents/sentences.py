"""Finds where sentences end.

The library sentencex does this for languages with spaces between words. Our own rules serve the
other languages, which it does not know, and stand in for it if it is not installed. In doubt, a
sentence goes on: too long a sentence does little harm, but half a sentence is translated wrongly.
"""

import importlib.util
import re
from functools import cache
from itertools import accumulate

from seq2seq.text.languages import is_spaceless, language_code

LIBRARY_ADVICE = (
    "sentences are separated by simple rules that know few abbreviations. For better ones, install "
    "sentencex: pip install 'seq2seq-attention-zoo[sentences]'"
)
MAX_CHARACTERS = 5_000  # passed to the library at once; it takes quadratic time for some texts
# As many words as fit into the limit; a longer word is not cut.
PORTION = re.compile(rf"(?s:.{{1,{MAX_CHARACTERS}}})(?:(?<= )|\Z)|[^ ]+ ?")

# Closing quotation marks and brackets, including full-width ones.
CLOSE = r"[\"'”’»›)\]」』）】》〉]*"
# A quotation without another one inside counts as a unit: 「はい。」と言った。
QUOTED = "|".join(rf"{a}[^{a}{b}]{{0,200}}{b}" for a, b in ("「」", "『』", "“”", "（）", "《》"))
# The marks that end a sentence. In scripts without spaces or capitals, nothing need follow them;
# in others, white space must follow, and then no lower-case letter.
END = re.compile(
    rf"(?P<quoted>{QUOTED})|"
    rf"(?:[。！？｡．।॥։።၊။។៕]|…(?=…))[。！？!?…]*{CLOSE}\s*|"
    rf"(?<![.!?…؟۔])(?P<mark>[.!?…؟۔]++){CLOSE}\s+(?=(?P<next>\S)?)"
)
QUOTED_END = re.compile(rf"[。！？｡．.!?…]{CLOSE}$")
AFTER_QUOTED = re.compile(r"\s+(?=(\S)?)|(?=[「『“（《]|$)()")
# An initial, an ordinal or a title: a full stop after these does not end the sentence.
NO_END = re.compile(r"\b(?:[^\W\d_]|\d{1,2}|Dr|Mr|Mrs|Ms|Prof|St|Nr)$")


def sentence_ends(text: str, language: str | None) -> list[int]:
    """The end of each sentence, including the white space after it; the last is len(text)."""
    if is_spaceless(language) or not has_library():
        return ends_by_rule(text)
    return ends_by_library(text, language)


@cache
def has_library() -> bool:
    """True if sentencex is installed."""
    return importlib.util.find_spec("sentencex") is not None


def lacks_library(language: str | None) -> bool:
    """True if sentencex supports the language, but is not installed."""
    return not is_spaceless(language) and not has_library()


def ends_by_rule(text: str) -> list[int]:
    """`sentence_ends` by our own rules: marks, quotations and the words around them."""
    ends = []
    for match in END.finditer(text):
        if match["quoted"]:
            # 「はい。」と言った goes on; 「はい。」「いいえ。」 are two sentences.
            after = AFTER_QUOTED.match(text, match.end())
            if after and QUOTED_END.search(match["quoted"]) and not (after[1] or "").islower():
                ends.append(after.end())
            continue
        before = text[max(0, match.start() - 8) : match.start()]
        small = (match["next"] or "").islower()
        if not (small or (match["mark"] == "." and NO_END.search(before))):
            ends.append(match.end())
    return ends if ends[-1:] == [len(text)] else [*ends, len(text)]


def ends_by_library(text: str, language: str | None) -> list[int]:
    """`sentence_ends` by sentencex."""
    # The library fails on white space outside ASCII, and on what UTF-8 cannot encode.
    plain = re.sub(r"\s", " ", text).encode("utf-8", "replace").decode("utf-8")
    parts: list[str] = []
    for portion in PORTION.findall(plain):
        is_short = len(portion) <= MAX_CHARACTERS
        parts += library_segments(portion, language) if is_short else [portion]
    return sorted({*accumulate(map(len, parts))} - {0}) or [0]


def library_segments(text: str, language: str | None) -> list[str]:
    """The sentences of a text, or the whole text if the library fails."""
    import sentencex

    try:
        parts: list[str] = sentencex.segment(language_code(language), text)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # from Rust, and not an Exception
            raise
        return [text]
    return parts if "".join(parts) == text else [text]
