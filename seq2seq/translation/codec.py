"""From texts to the sentences that are decoded, and from hypotheses to texts."""

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.constraints.lexical import Vocabulary
from seq2seq.constraints.request import Requirements, Rules
from seq2seq.decoding.request import SentenceRequest
from seq2seq.decoding.search import Hypothesis
from seq2seq.scoring import clean_line
from seq2seq.symbols import EOS
from seq2seq.tokenization.splitting import split_into_parts
from seq2seq.tokenization.tokenizer import Tokenizers
from seq2seq.translation.request import Translation, TranslationRequest

LONGEST_WORD = 200  # pieces; decoding more without a space takes long and yields nothing
MOST_JOINED = 20  # translations of a text in parts: a hundred parts may have a hundred each


@dataclass(frozen=True)
class TextCodec:
    """From texts to sentences to decode, and back.

    Attributes:
        tokenizers: the model's.
        limit: maximum pieces of a part, with its end and without its tag.
        max_length: maximum pieces that the model can write, the end included; None = no limit.
        between: what stands between the translations of two parts.
        vocabulary: of the target.
        rules: the requirements of all translations; None = none.
        shortlist: do translations consist of the pieces of a shortlist?
        spaceless: does the source language write no spaces between words?
    """

    tokenizers: Tokenizers
    limit: int
    max_length: int | None
    between: str
    vocabulary: Vocabulary
    rules: Rules | None = None
    shortlist: bool = False
    spaceless: bool = False

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of each text."""
        return self.tokenizers.source.encode_batch([clean_line(text) for text in texts])

    def longest_word(self, text: str, ids: Sequence[int]) -> int:
        """Pieces of the longest word of a text, if they are more than `LONGEST_WORD`, else 0.

        Args:
            ids: the pieces of the text.
        """
        if self.spaceless or len(ids) <= LONGEST_WORD:
            return 0
        text = clean_line(text)
        ends = [end for _, end in self.tokenizers.source.spans(text)]
        words = (match.span() for match in re.finditer(r"\S+", text))
        longest = max((bisect_right(ends, b) - bisect_right(ends, a) for a, b in words), default=0)
        return longest if longest > LONGEST_WORD else 0

    def requirements_of(self, request: TranslationRequest) -> Requirements | None:
        """The requirements of the translation of a text, if there are any.

        Raises: as `Requirements`.
        """
        rules, prefix = self.rules or Rules(), clean_line(request.prefix)
        phrases = request.must, request.must_not
        if not (request.prefix or any(phrases) or rules.apply_to(request.text)):
            return None
        return Requirements(rules, self.vocabulary, request.text, prefix, *phrases, self.max_length)

    def sentences_of(
        self,
        request: TranslationRequest,
        requirements: Requirements | None,
        ids: list[int] | None = None,
    ) -> list[SentenceRequest]:
        """The sentences to decode: one; several if the text is too long; none if it is blank.

        Args:
            ids: from `encode`; None = not known yet.
        """
        source, text = self.tokenizers.source, clean_line(request.text)
        rows = [ids if ids is not None else self.encode([text])[0]]
        if len(rows[0]) - len(source.prefix) > self.limit - 1:
            # White space alone has no translation.
            rows = source.encode_batch(
                [part for part in split_into_parts(text, source, self.limit - 1) if part.strip()]
            )
        elif not text.strip():
            rows = []
        return [
            SentenceRequest(
                [*row, EOS],
                [] if part or requirements is None else requirements.forced,
                request.search,
                None if requirements is None else requirements.constraint(part),
                owner=request.owner,
            )
            for part, row in enumerate(rows)
        ]

    def translations_of(self, parts: Sequence[list[Hypothesis]]) -> list[Translation]:
        """The translations of a text from the hypotheses of its parts: joined rank by rank, as many
        as all parts have, and of several parts at most `MOST_JOINED`. Those whose probability is
        not finite are left out.
        """
        finite = [[h for h in part if math.isfinite(h.score)] for part in parts]
        ranks = list(zip(*finite, strict=False))[: MOST_JOINED if len(parts) > 1 else None]
        texts = iter(self.tokenizers.target.decode_batch([h.ids for rank in ranks for h in rank]))
        return [
            Translation(
                self.join([next(texts) for _ in rank]),
                sum(h.score for h in rank) / len(rank),
                [i for h in rank for i in (h.ids if h.truncated else [*h.ids, EOS])],
                tuple(value for h in rank for value in h.token_logp),
                any(h.truncated for h in rank),
                shortlist=self.shortlist,
            )
            for rank in ranks
        ]

    def join(self, texts: list[str]) -> str:
        """The translation of a text from those of its parts, without spaces around it."""
        return self.between.join(text.strip() for text in texts)
