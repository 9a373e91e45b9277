"""Text that is copied, not translated: placeholders, addresses, tags, numbers and codes."""

import re
from collections import Counter
from collections.abc import Iterable

MAX_NESTED = 8  # levels of nested braces in an ICU message
MAX_WORD = 100  # characters; a longer word with digits is a code
HIDDEN = "\ufdd1"  # occurs in no text; replaces each character of an ICU message


def balance_braces() -> str:
    """A pattern for text with balanced braces, nested up to `MAX_NESTED` levels. Matching takes
    linear time: there is only one way to match a text, and a brace that is never closed is tried
    at most `MAX_NESTED` times.
    """
    pattern = r"[^{}]*+"
    for _ in range(MAX_NESTED):
        pattern = rf"(?:[^{{}}]++|\{{{pattern}\}})*"
    return pattern


# {count, plural, one {# file} other {# files}}: the whole message is one placeholder, since
# translating the texts inside could damage its syntax.
ICU = r"\{\s*+[\w.-]++\s*+,\s*+"
MESSAGE = rf"{ICU}(?:plural|select(?:ordinal)?|choice)\s*+,{balance_braces()}\}}"
WEB = r"(?:https?|ftps?|file)://[^\s<>\"]*[\w/]|\bwww\.[^\s<>\"]*[\w/]"
# Several starting points are tried only within the 64 characters before an @.
MAIL = r"(?:mailto:)?+(?:(?<![\w.+-])[\w.+-]++|[\w.+-]{1,64}+)@[\w-]++(?:\.[\w-]++)+"

LENGTH = r"(?:hh?|ll?|[Lqjzt]|I(?:32|64))?"  # of an argument of printf

# Dialects of placeholders. A dialect that contains another comes first. A percent sign after a
# number and a colon after a word are punctuation: 50%, 10%-a, Hinweis:nein, 10:30.
MUSTACHE, ERB = "Mustache, Vue, Jinja, Angular", "ERB, JSP: <%= name %>"
DIALECTS = {
    "ICU, Angular: {n, plural, one {#} other {#}}": MESSAGE,
    # {0, number, integer}
    "ICU formats": rf"{ICU}(?:number|date|time|spellout|ordinal|duration)\s*+(?:,[^{{}}]*+)?\}}",
    # {{ name }} {{{name}}} {% if %} {# comment #}
    MUSTACHE: r"\{\{\{?+[^{}]*+\}\}\}?+|\{%[^{}%]*+%\}|\{#[^{}#]*+#\}",
    ERB: r"<%(?:[^<%]|%(?!>)|<(?!%))*+%>",
    # {} {0} {a.b:>4} { $x } %{name} ${name} #{name}
    "Python, C#, Java, Fluent, Ruby, JavaScript": r"[$%#@]?+\{ ?+[^{}\s]*+ ?+\}",
    "i18next, Make: $t(key) $(NAME)": r"\$t\([^()]*+\)|\$\([A-Za-z_][\w.]*+\)",
    "Python, shell: __name__": r"(?<!\w)__(?:[a-z](?:_?[a-z0-9])*+|[A-Z](?:_?[A-Z0-9])*+)__(?!\w)",
    "AngularJS, Thymeleaf: [[name]]": r"\[\[ ?[a-z_][\w.-]*+ ?\]\]",
    "addresses of pages": WEB,
    "addresses of mail": MAIL,
    "escaped percent sign": r"%%",
    "Symfony, Windows: %name%": r"%[A-Za-z_][\w.-]++%(?![\w%])",
    "Boost, Qt, KDE: %1% %1 %L1": r"%\d\d?%(?![\w%])|%L?\d(?![\d$]|[.,]\d|\.?\d*[A-Za-z@])",
    "Xcode: %#@name@": r"%(?:\d++\$)?+#@\w++@",
    # With a position or a name: %1$s %(name)s %<name>s %[1]s
    "C, Python, PHP, Ruby, Go": (
        r"%(?:\(\w[\w.-]*+\)|(?<!\d%)<\w++>|\[\d++\]|\d++\$)[-+#0']*+(?:\d++|\*\d++\$)?+"
        rf"(?:\.\d++)?+{LENGTH}[A-Za-z@]"
    ),
    "C, Objective-C, strftime: %s %ld %.2f %-5d %*d %@ %Y": (
        rf"(?<!\d)%(?:'(?=[\d.]*+[dfiu]))?+[-+#0]*+(?:\d++|\*)?+(?:\.(?:\d++|\*))?+(?:@|{LENGTH}"
        r"(?:[A-Za-z](?![^\W_])|[dsuf](?=[A-Za-z]{1,2}(?![^\W_]))))|%(?:@|[sd](?![^\W_]))"
    ),
    "Drupal, accounts: %name @name": (
        r"(?<![\w%)])(?<!\d\s)%[a-z][a-z0-9_]{2,}+(?!\w)|(?<![\w@%$.+-])@[a-z_]\w++(?![\w.-]*@)"
    ),
    "PHP, shell, regular expressions: $name $1": r"\$(?:[A-Za-z_]\w*+|\d(?![\w%]|[.,]\d))",
    "emoji: :smile:": r"(?<![\w:]):[a-z0-9_+-]++:(?![\w:])",
    "Laravel, SQL, Rails: :name": r"(?<![\w:]):(?:[a-z_]\w++|[A-Z]\w\w++)(?![\w:])",
    "HTML, XML, React: <b> </0> <1/>": r"</?(?:[A-Za-z][^<>]*+|\d++\s*+/?+)>",
    "references: &name; &#160;": r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,31});",
}
PLACEHOLDERS = "|".join(DIALECTS.values())
PLACEHOLDER = re.compile(PLACEHOLDERS)
# Placeholders in HTML pages that contain characters special to HTML.
TEMPLATE = re.compile(f"({DIALECTS[MUSTACHE]}|{DIALECTS[ERB]})")
SIGN = re.compile(r"[{%<@$&:]|www\.|__|\[\[")  # every placeholder has one of these, most texts none

ICU_MESSAGE = re.compile(MESSAGE)
PLAIN_WORD = re.compile(r"(?<!\S)[^\W\d_]{2,}+(?=[\s,;!?]|\.?(?:\s|\Z))")
DOMAIN = re.compile(r"(?:[a-z0-9-]++\.)+[a-z]{2,}(?:[/?#:]\S*)?")
# Always codes, even if they contain words: file names, versions, hashes.
FILE = re.compile(r".*\w\.[A-Za-z][A-Za-z0-9]{1,4}|.*\d\.\d+\.\d.*|[0-9a-fA-F-]{7,}", re.S)
# Ordinal numbers and decades: 3rd, 1er, 2e, 1990er, 80s.
ORDINAL = re.compile(
    r"\d+[.,]?\d*(?:st|[nr]d|th|ers?|ern|e|re|[eè]re|[eè]me|n?de|ten?|te[rns]|ste[rns]?)|\d*0s"
)
# Letters after a digit, or after a hyphen that follows one, up to the next hyphen or the end:
# `Zimmer` in 3-Zimmer-Wohnung, `Druck` in 3D-Druck, `jährig` in 8jährig; but only `b` in XK-200b.
AFTER_DIGIT = re.compile(r"\d(\w*-)?([^\W\d_]++)(?=-|\Z)")


def find_all(text: str) -> Iterable[re.Match[str]]:
    """The placeholders of a text, in order of appearance."""
    return PLACEHOLDER.finditer(text) if SIGN.search(text) else ()


def find_placeholders(text: str) -> Counter[str]:
    """The placeholders of a text with their counts, in order of appearance."""
    return Counter(match[0] for match in find_all(text))


def hide_messages(text: str) -> str:
    """Replace each character of the ICU messages in a text by `HIDDEN`: no sentence ends there."""
    return ICU_MESSAGE.sub(lambda match: HIDDEN * len(match[0]), text)


def is_language(text: str) -> bool:
    """True if a sentence has anything to translate.

    A sentence that consists only of placeholders, web and mail addresses, numbers and codes
    (`is_code`) is copied. So is any sentence with an ICU message.
    """
    if HIDDEN in hide_messages(text):
        return False
    plain = PLACEHOLDER.sub(" ", text) if SIGN.search(text) else text
    words = (word for word in plain.split() if any(map(str.isalpha, word)))
    return PLAIN_WORD.search(plain) is not None or not all(map(is_code, words))


def is_code(word: str) -> bool:
    """True if a word is a code or a web address: `A-17/3`, `v2.0.1`, `#42`, `a.org`.

    A code has a digit, and all its letters have upper and lower case. `3rd`, `1990er`, `8jährig`
    and `3-Zimmer-Wohnung` are words of a language, and so is `第3条`.
    """
    word = "".join(re.findall(r"(?s:\w(?:.*\w)?)", word))  # without surrounding punctuation
    if DOMAIN.fullmatch(word):
        return True
    letters = [letter for letter in word if letter.isalpha()]
    if not any(map(str.isdigit, word)) or any(c.lower() == c.upper() for c in letters):
        return False
    if len(word) > MAX_WORD or FILE.fullmatch(word):
        return True
    return not ORDINAL.fullmatch(word) and not any(
        is_word(match[2], hyphen=bool(match[1])) for match in AFTER_DIGIT.finditer(word)
    )


def is_word(letters: str, *, hyphen: bool) -> bool:
    """True if letters after a digit are a word or an ending, not a unit or part of a code."""
    if letters.isupper():
        return False
    return len(letters) > (2 if hyphen else 3) or (letters.islower() and not letters.isascii())
