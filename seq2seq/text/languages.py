"""Language codes in any usual form, scripts, and whether white space separates words."""

import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

LANGUAGE_CODES = "type a code such as de, pt-BR or zho_Hans"
LONGEST_CODE = 40  # characters; what clients write is remembered
# Usual names of files that are also codes of small languages, and codes of no language.
NO_LANGUAGES = {"src", "tgt", "trg", "txt", "ref", "hyp", "sys", "und", "mul", "zxx"}
# Forms of LibreTranslate and of Windows, which are in no standard.
ALIASES = {"zt": "zh-Hant", "pb": "pt-BR", "zh-cht": "zh-Hant", "zh-chs": "zh-Hans"}
ENCODING = re.compile(r"\.(utf|iso|euc|big5|gb|koi|cp|sjis)[^@]*")  # in the names of locales
# Scripts in the names of locales, such as sr_RS@latin.
MODIFIERS = {"latin": "-Latn", "cyrillic": "-Cyrl", "arabic": "-Arab", "devanagari": "-Deva"}
# Codes that detectors and clients use, where CLDR prefers others.
PREFERRED = {"fil": "tl", "no": "nb"}

# Characters that count as a word in scripts without white space between words.
WORD_LENGTHS = dict.fromkeys(("Hans", "Hant", "Hani", "Jpan", "Hira", "Kana"), 1)
WORD_LENGTHS |= dict.fromkeys(("Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Java", "Bali"), 4)
# The same by codes of two letters: the library takes 60 ms to import, and few programs need it.
SHORT_CODES = {"zh": 1, "zt": 1, "ja": 1} | dict.fromkeys(("th", "lo", "km", "my", "bo", "dz"), 4)
# The scripts of Unicode in the writing systems that have a code of their own.
PARTS = dict.fromkeys(("Hans", "Hant", "Hanb"), "Hani Bopo")
PARTS |= {"Jpan": "Hani Hira Kana", "Kore": "Hang Hani", "Jamo": "Hang"}
SPACELESS_SCRIPTS = frozenset(" ".join(PARTS.get(each, each) for each in WORD_LENGTHS).split())
SAME_SCRIPTS = {"Hang": "Kore", "Aran": "Arab", "Hanb": "Hant"}
# Languages written in a script as well, where CLDR's likely subtags do not say so.
ALSO_WRITTEN = (
    "Latn aii be ber ckb crh gag hak iu kaa kk kok lad mni nan rom sat shi tg tt tzm ug yi zgh, "
    "Cyrl aii av bs crh gag kaa ku lad ro rom tk tt, "
    "Arab ace ba bal ber bjn crh ff kr min shi so sw tk tt tzm wo, Deva gom ks mni sat sa, "
    "Beng mni sat sa, Tfng ber kab shi taq tzm zgh, Hebr lad, Mong bua xal, Java jv, Bali ban, "
    "Sund su, Nkoo bm, Adlm ff, Mtei mni, Guru pnb, Grek cop grc, Orya sat, Knda gom kok, Cans iu"
)


class Language(NamedTuple):
    """A language, as its code says.

    Attributes:
        code: the shortest code of ISO 639: `zh` for zho_Hans and cmn. The code of no language as it
            is, in small letters and with `_` for `-`.
        tag: code with the script and the region where they were given and say more: `zh-Hant`,
            `pt-BR`.
        script: code of ISO 15924 for the script that is given, or else likely; empty if unknown.
        is_known: whether there is such a language.
        is_written: whether the script was given.
    """

    code: str
    tag: str
    script: str = ""
    is_known: bool = False
    is_written: bool = False


def read_language(text: str | None) -> Language:
    """The language of a code in the form of BCP 47, ISO 639-1 to 639-3, FLORES, NLLB or a locale:
    zh-Hant, deu, ger, zho_Hans, pt_br, sr@latin.
    """
    text = (text or "").strip().lower().replace("_", "-")
    unknown = text.replace("-", "_")
    known = find_language(text) if len(text) <= LONGEST_CODE else None
    return known or Language(unknown, unknown)


@lru_cache(maxsize=1024)
def find_language(text: str) -> Language | None:
    """The language of a code in small letters and with hyphens; None if there is none."""
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
    """Rate how well a language answers a wish: 2 if it is the same variant, 1 if it is the same
    language and, as far as known, in the same script, else 0.
    """
    one, other = read_language(wanted), read_language(offered)
    scripts = {one.script, other.script} - {""}
    return (one.code == other.code and len(scripts) < 2) + (one.tag == other.tag)


@lru_cache(maxsize=1024)
def word_length(text: str | None) -> int:
    """The characters that count as a word; 0 for a language with white space between words."""
    if text and re.fullmatch("[a-z]{2}", text):
        return SHORT_CODES.get(text, 0)
    return WORD_LENGTHS.get(read_language(text).script, 0)


def is_spaceless(text: str | None) -> bool:
    """Tell whether a language is written without white space between words."""
    return word_length(text) > 0


def space_between(text: str | None) -> str:
    """The space between two sentences of a language; empty for one such as Chinese."""
    return "" if is_spaceless(text) else " "


@lru_cache(maxsize=1024)
def scripts_of(text: str | None) -> frozenset[str]:
    """The scripts of Unicode, as codes of ISO 15924, in which a language is written: the one that
    its code names, else all that are usual; none if they are not known.
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
    """A pattern of the library `regex`: a letter of another script, if any script is given. Letters
    that many scripts share belong to each.
    """
    import regex

    inside = "".join(f"\\p{{sc={each}}}" for each in scripts | {"Zyyy", "Zinh"})
    try:
        return regex.compile(f"[\\p{{L}}--[{inside}]]" if scripts else "(?!)", regex.V1)
    except regex.error:  # a notation, such as Zsym, which is no script
        return regex.compile("(?!)")
