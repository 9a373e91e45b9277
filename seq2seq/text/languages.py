"""Language codes in all common forms, scripts, and languages without white space between words."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, NamedTuple

LANGUAGE_CODES = "type a code such as de, pt-BR or zho_Hans"
LONGEST_CODE = 40  # characters; codes sent by clients are cached, so they must be short
# Common file endings that are also codes of small languages, and codes that name no language.
NO_LANGUAGES = {"src", "tgt", "trg", "txt", "ref", "hyp", "sys", "und", "mul", "zxx"}
# Codes used by LibreTranslate and Windows that are in no standard.
ALIASES = {"zt": "zh-Hant", "pb": "pt-BR", "zh-cht": "zh-Hant", "zh-chs": "zh-Hans"}
# Encodings in locale names, such as de_DE.utf8.
ENCODING = re.compile(r"\.(utf|iso|euc|big5|gb|koi|cp|sjis)[^@]*")
# Scripts in locale names, such as sr_RS@latin.
MODIFIERS = {"latin": "-Latn", "cyrillic": "-Cyrl", "arabic": "-Arab", "devanagari": "-Deva"}
# Codes that language detectors and clients use although CLDR prefers others.
PREFERRED = {"fil": "tl", "no": "nb", "pbt": "ps"}

# Number of characters that count as one word in scripts without white space between words.
WORD_LENGTHS = dict.fromkeys(("Hans", "Hant", "Hani", "Jpan", "Hira", "Kana"), 1)
WORD_LENGTHS |= dict.fromkeys(("Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Java", "Bali"), 4)
# The same for two-letter codes: importing the library takes 60 ms, and few programs need it.
SHORT_CODES = {"zh": 1, "zt": 1, "ja": 1} | dict.fromkeys(("th", "lo", "km", "my", "bo", "dz"), 4)
# Unicode scripts that make up a writing system with a code of its own.
PARTS = dict.fromkeys(("Hans", "Hant", "Hanb"), "Hani Bopo")
PARTS |= {"Jpan": "Hani Hira Kana", "Kore": "Hang Hani", "Jamo": "Hang"}
SPACELESS_SCRIPTS = frozenset(" ".join(PARTS.get(each, each) for each in WORD_LENGTHS).split())
SAME_SCRIPTS = {"Hang": "Kore", "Aran": "Arab", "Hanb": "Hant"}
# Scripts, each with languages that also use it although CLDR's likely subtags do not say so.
ALSO_WRITTEN = (
    "Latn aii be ber ckb crh gag hak iu kaa kk kok lad mni nan rom sat shi tg tt tzm ug yi zgh, "
    "Cyrl aii av bs crh gag kaa ku lad ro rom tk tt, "
    "Arab ace ba bal ber bjn crh ff kr min shi so sw tk tt tzm wo, Deva gom ks mni sat sa, "
    "Beng mni sat sa, Tfng ber kab shi taq tzm zgh, Hebr lad, Mong bua xal, Java jv, Bali ban, "
    "Sund su, Nkoo bm, Adlm ff, Mtei mni, Guru pnb, Grek cop grc, Orya sat, Knda gom kok, Cans iu"
)


class Language(NamedTuple):
    """A language, read from its code.

    Attributes:
        code: the shortest ISO 639 code: `zh` for zho_Hans and cmn. An unknown code is kept, in
            lower case and with `_` for `-`.
        tag: code with the script and the region, if they were given and are not the usual ones:
            `zh-Hant`, `pt-BR`.
        script: ISO 15924 code of the given script, else of the likely one; empty if unknown.
        is_known: whether the language exists.
        is_written: whether the code names the script.
    """

    code: str
    tag: str
    script: str = ""
    is_known: bool = False
    is_written: bool = False


def read_language(text: str | None) -> Language:
    """Read a language code in the form of BCP 47, ISO 639-1 to 639-3, FLORES, NLLB or a locale:
    zh-Hant, deu, ger, zho_Hans, pt_br, sr@latin.
    """
    text = (text or "").strip().lower().replace("_", "-")
    unknown = text.replace("-", "_")
    known = find_language(text) if len(text) <= LONGEST_CODE else None
    return known or Language(unknown, unknown)


@lru_cache(maxsize=1024)
def find_language(text: str) -> Language | None:
    """The language for a code in lower case and with hyphens; None if the code is unknown."""
    import langcodes
    from langcodes.data_dicts import LIKELY_SUBTAGS

    base, _, modifier = ENCODING.sub("", text).partition("@")
    script = next((MODIFIERS[name] for name in MODIFIERS if modifier.endswith(name)), "")
    base = re.sub(r"^\w+", rf"\g<0>{script}", base)
    try:
        read = langcodes.Language.get(ALIASES.get(base, base))
    except ValueError:
        return None
    if text in NO_LANGUAGES or not (read.language and read.is_valid()) or read.extlangs:
        return None
    code = read.prefer_macrolanguage().language or ""
    make = langcodes.Language.make
    usual = make(language=code).maximize().script if code in LIKELY_SUBTAGS else None
    likely = make(language=code, territory=read.territory).maximize().script if usual else None
    written = SAME_SCRIPTS.get(read.script or "", read.script)
    said = written if written != usual or code == "zh" else None
    tag = "-".join(filter(None, (PREFERRED.get(code, code), said, read.territory)))
    return Language(PREFERRED.get(code, code), tag, written or likely or "", True, bool(written))


def language_code(text: str | None) -> str:
    """`zh` for zh, ZH, zho_Hans, cmn and zh_CN; see `Language.code`."""
    return read_language(text).code


def likeness(wanted: str, offered: str) -> int:
    """Rate how well an offered language matches the wanted one: 2 for the same variant, 1 for the
    same language without a known difference in script, else 0.
    """
    one, other = read_language(wanted), read_language(offered)
    scripts = {one.script, other.script} - {""}
    return (one.code == other.code and len(scripts) < 2) + (one.tag == other.tag)


def matching_languages(wanted: str, offered: Iterable[str]) -> list[str]:
    """The offered languages that a code may mean: the one with the same code, else those that it
    resembles most. Several if the code is ambiguous, none if nothing matches.
    """
    code = wanted.lower().replace("_", "-")
    rated = {each: likeness(wanted, each) for each in offered}
    if same := [each for each in rated if each.lower().replace("_", "-") == code]:
        return same
    return [each for each, rate in rated.items() if 0 < rate == max(rated.values())]


@lru_cache(maxsize=1024)
def word_length(text: str | None) -> int:
    """Number of characters that count as a word; 0 if the language has spaces between words."""
    if text and re.fullmatch("[a-z]{2}", text):
        return SHORT_CODES.get(text, 0)
    return WORD_LENGTHS.get(read_language(text).script, 0)


def is_spaceless(text: str | None) -> bool:
    """True if a language is written without white space between words."""
    return word_length(text) > 0


def space_between(text: str | None) -> str:
    """The space between two sentences: empty for languages such as Chinese."""
    return "" if is_spaceless(text) else " "


@lru_cache(maxsize=1024)
def scripts_of(text: str | None) -> frozenset[str]:
    """ISO 15924 codes of the Unicode scripts of a language: the script named in its code, else all
    scripts commonly used for it; empty if unknown.
    """
    from langcodes.data_dicts import LIKELY_SUBTAGS

    language = read_language(text)
    scripts = {language.script} - {""}
    if scripts and not language.is_written:
        for code, script, *_ in (tag.split("-") for tag in LIKELY_SUBTAGS.values()):
            scripts |= {script} if PREFERRED.get(code, code) == language.code else set()
        tables = map(str.split, ALSO_WRITTEN.split(", "))
        scripts |= {script for script, *codes in tables if language.code in codes}
    return frozenset(part for each in scripts for part in PARTS.get(each, each).split())


@cache
def letters_outside(scripts: frozenset[str]) -> Any:
    """A pattern of the library `regex` for letters outside some scripts. Letters shared by many
    scripts count as inside; if no scripts are given, nothing matches.
    """
    import regex

    inside = "".join(f"\\p{{sc={each}}}" for each in scripts | {"Zyyy", "Zinh"})
    try:
        return regex.compile(f"[\\p{{L}}--[{inside}]]" if scripts else "(?!)", regex.V1)
    except regex.error:  # a notation such as Zsym, which is not a script
        return regex.compile("(?!)")
