"""Detect texts that look tokenized or have no spaces between words, which distorts their scores."""

import re
from collections.abc import Iterable, Mapping, Sequence

from seq2seq.metrics.registry import DEFAULT
from seq2seq.text.languages import SPACELESS_SCRIPTS, is_spaceless, letters_outside

# A space before a full stop or a comma, entities and hyphens of the Moses tokenizer, and endings
# that it splits off. A space before : ; ! ? or quotes does not count, as it is normal in French.
TOKENIZED = re.compile(
    r" [.,。，](?= |$)|&(?:apos|quot|amp|lt|gt|#91|#93|#124);|@-@| (?:'s|n't|'re|'ve|'ll)(?= |$)"
)
SHARE_TOKENIZED = 0.2  # minimum share of marked lines; in raw text it is hardly 0.01


def looks_tokenized(lines: Iterable[str]) -> bool:
    """True if punctuation and endings are split off in many of the lines."""
    marked = [bool(TOKENIZED.search(line)) for line in lines if line.strip()]
    return bool(marked) and sum(marked) > SHARE_TOKENIZED * len(marked)


def looks_spaceless(lines: Iterable[str]) -> bool:
    """True if most letters belong to scripts that put no spaces between words."""
    text = "".join(lines)
    others = len(letters_outside(SPACELESS_SCRIPTS).findall(text))
    return sum(map(str.isalpha, text)) > 2 * others


def usual_metrics(references: Sequence[str]) -> list[str]:
    """The default metrics for these references."""
    return [*DEFAULT, *["bleu-tokenized"] * looks_tokenized(references)]


def cautions(
    references: Sequence[str], systems: Mapping[str, Sequence[str]], language: str | None = None
) -> list[str]:
    """Warnings for readers who compare these scores with others.

    Args:
        systems: outputs of each system, by name.
        language: language of the references that BLEU uses; None if unknown.
    """
    notes = []
    if looks_spaceless(references) and not is_spaceless(language):
        notes.append(
            "the references have no spaces between words, and BLEU and TER do not know the "
            "language, so they treat a whole clause as one word. Type --language zh, or ja, th..."
        )
    if tokenized := looks_tokenized(references):
        notes.append(
            "the references look tokenized: BLEU tokenizes them again, so it is not comparable "
            "with published scores. --metrics bleu-tokenized uses the words as given, like papers "
            "on tokenized files. Neither is comparable with scores on the raw text of the test set"
        )
    for name, lines in systems.items():
        if not tokenized and looks_tokenized(lines):
            notes.append(
                f"the translations of {name} look tokenized, and the references do not: detokenize "
                "them first, or BLEU and chrF are too low"
            )
    return notes
