"""Text that is no language: placeholders of programs, addresses and tags, copied as they are."""

import re
from collections import Counter

# {name}, %s and %(x)d, addresses of pages and mail, tags. Linear time: only the 64 characters
# before an @ are read from several places.
PLACEHOLDERS = (
    r"\{[^{}\s]*+\}|%(?:\(\w++\))?[-+#0]*+\d*+(?:\.\d++)?[sdifgrxX]\b|"
    r"https?://[^\s<>\"]*[\w/]|"
    r"(?:(?<![\w.+-])[\w.+-]++|[\w.+-]{1,64}+)@[\w-]++(?:\.[\w-]++)+|</?[A-Za-z][^<>]*+>"
)
PLACEHOLDER = re.compile(PLACEHOLDERS)


def find_placeholders(text: str) -> Counter[str]:
    """The placeholders of a text, with their counts, in their order."""
    return Counter(match[0] for match in PLACEHOLDER.finditer(text))
