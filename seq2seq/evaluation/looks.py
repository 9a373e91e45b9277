"""What a text looks like: tokenised, lower-cased. Both make scores that are easily misread."""

import re
from collections.abc import Iterable

# A space before a full stop or a comma, entities of the Moses tokenizer, its hyphens, and endings
# that it splits off. Not before : ; ! ? or quotes, where French puts spaces as well.
_TOKENIZED = re.compile(
    r" [.,。，](?= |$)|&(?:apos|quot|amp|lt|gt|#91|#93|#124);|@-@| (?:'s|n't|'re|'ve|'ll)(?= |$)"
)
_SHARE_TOKENIZED = 0.2  # of the lines; of raw text it is hardly one in a hundred
_SHARE_UPPER = 0.01  # of the lines that have letters of two cases; of raw text nearly all


def looks_tokenized(lines: Iterable[str]) -> bool:
    """Do punctuation and endings stand apart in many of the lines?"""
    marked = [bool(_TOKENIZED.search(line)) for line in lines if line.strip()]
    return bool(marked) and sum(marked) > _SHARE_TOKENIZED * len(marked)


def looks_lowercased(lines: Iterable[str]) -> bool:
    """Is there hardly a capital in lines of a script that has capitals?"""
    cased = [line for line in lines if line.lower() != line.upper()]
    capitals = sum(line != line.lower() for line in cased)
    return bool(cased) and capitals <= _SHARE_UPPER * len(cased)


def cautions(references: Iterable[str], hypotheses: Iterable[str]) -> list[str]:
    """What to know before these scores are compared with those of others; a sentence each."""
    references, hypotheses = list(references), list(hypotheses)
    found = []
    if looks_tokenized(references):
        found.append(
            "the references look tokenized. BLEU above splits them once more and compares with no "
            "published number; BLEU-tokenized takes words as they stand, as papers on tokenized "
            "files do. Only scores on raw text of the test set compare with raw scores."
        )
    elif looks_tokenized(hypotheses):
        found.append(
            "the translations look tokenized, and the references do not: detokenize them first; "
            "every word that stands apart from its punctuation costs points."
        )
    if looks_lowercased(references):
        found.append(
            "the references look lower-cased: the scores compare only with others on lower-cased "
            "references, which are higher than those of cased text."
        )
        if not looks_lowercased(hypotheses) and any(line.strip() for line in hypotheses):
            found.append("the translations have capitals, and each of them costs points here.")
    elif looks_lowercased(hypotheses):
        found.append(
            "the translations look lower-cased, and the references do not: BLEU and chrF tell "
            "capitals from small letters."
        )
    return found
