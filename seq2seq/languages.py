"""Language codes, and whether white space separates the words of a language."""

# Languages that write no white space between words.
SPACELESS = frozenset({"zh", "ja", "th", "km", "lo", "my"})


def language_code(language: str | None) -> str:
    """`zh` for zh, ZH, zh-Hans and zh_CN; empty for an unknown language."""
    return (language or "").lower().replace("_", "-").split("-")[0]


def is_spaceless(language: str | None) -> bool:
    return language_code(language) in SPACELESS
