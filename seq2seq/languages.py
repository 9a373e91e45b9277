"""What is to be known about a language: whether white space separates its words."""

# Languages whose words no white space separates.
SPACELESS = frozenset({"zh", "ja", "th", "km", "lo", "my"})


def language_code(language: str | None) -> str:
    """`zh` for zh, ZH, zh-Hans and zh_CN; empty for an unknown language."""
    return (language or "").lower().replace("_", "-").split("-")[0]


def is_spaceless(language: str | None) -> bool:
    return language_code(language) in SPACELESS
