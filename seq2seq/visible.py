"""Text for people: what a terminal would obey, and what nobody could see, as escapes."""

import unicodedata


def escaped(text: str, keep: str = "") -> str:
    """A text with `\\x1b` and the like for characters that are controls, have no width or no form.

    So data in a message can neither move the cursor nor turn the direction of a line; and what is
    no character, half of a pair in the name of a file, can be printed.

    Args:
        keep: characters that stay, such as the ends of lines.
    """
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if _is_hidden(c) and c not in keep else c for c in text
    )


def shown(text: str) -> str:
    """A text of any number of lines as a message: `escaped` but for their ends and tabs."""
    return escaped(text, keep="\n\t")


def _is_hidden(character: str) -> bool:
    # Joiners are part of the spelling in Persian and in Indic scripts.
    category = unicodedata.category(character)
    return category in {"Zl", "Zp"} or (category[0] == "C" and character not in "\u200c\u200d")
