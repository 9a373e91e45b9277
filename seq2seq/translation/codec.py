"""From texts to the sentences that are decoded, and from hypotheses to texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.constraints.lexical import Constraint, Term, Vocabulary
from seq2seq.constraints.request import Rules
from seq2seq.constraints.spelling import Extension
from seq2seq.decoding.request import SentenceRequest
from seq2seq.decoding.search import Hypothesis
from seq2seq.errors import ConfigError
from seq2seq.scoring import clean_line
from seq2seq.symbols import EOS
from seq2seq.tokenization.splitting import split_into_parts
from seq2seq.tokenization.tokenizer import Tokenizers
from seq2seq.translation.request import Translation, TranslationRequest

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
        rules: what all translations must be like.
    """

    tokenizers: Tokenizers
    limit: int
    max_length: int | None
    between: str
    vocabulary: Vocabulary
    rules: Rules = Rules()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of each text."""
        return self.tokenizers.source.encode_batch([clean_line(text) for text in texts])

    def sentences_of(
        self, request: TranslationRequest, terms: Sequence[Term] = (), ids: list[int] | None = None
    ) -> list[SentenceRequest]:
        """The sentences to decode: one; several if the text is too long; none if it is blank.

        Only the first part of a long text begins with a prefix, and contains what must be there.

        Args:
            terms: of `terms_of`.
            ids: from `encode`; None = not known yet.

        Raises: ConfigError if the model cannot write the prefix and go on.
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
        forced, rest = self._beginning(clean_line(request.prefix))
        writes = self.vocabulary.spelling.writes if rest else []
        beginning = b"".join(writes[i] for i in forced if rest) + rest
        first = Constraint(tuple(terms), beginning)
        # A later part contains nothing of what the first must copy.
        none = (t._replace(minimum=0, maximum=0) if t.anywhere else t for t in terms)
        later = Constraint(tuple(term for term in none if not term.minimum))
        return [
            SentenceRequest(
                [*row, EOS],
                prefix,
                request.search,
                constraint if any(constraint) else None,
                owner=request.owner,
            )
            for row, prefix, constraint in zip(
                rows, [forced, *[[]] * len(rows)], [first, *[later] * len(rows)], strict=False
            )
        ]

    def terms_of(self, request: TranslationRequest) -> tuple[list[Term], list[str]]:
        """The terms that the translation of a text must and must not contain, and those that it
        cannot: what contains something banned, and what the pieces cannot spell.
        """
        terms = self.rules.terms(request.asked)
        possible = list(self.vocabulary.spellable(terms)) if terms else []
        return (
            [term for term in possible if isinstance(term, Term)],
            [phrase for phrase in possible if isinstance(phrase, str)],
        )

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
            )
            for rank in ranks
        ]

    def join(self, texts: list[str]) -> str:
        """The translation of a text from those of its parts."""
        return texts[0] if len(texts) == 1 else self.between.join(text.strip() for text in texts)

    def _beginning(self, prefix: str) -> Extension:
        """The pieces that a translation must begin with, and the bytes after them."""
        if not prefix.strip():
            return Extension([], b"")
        ids = self.tokenizers.target.encode_batch([prefix])[0]
        if self.max_length is not None and len(ids) + 1 >= self.max_length:
            raise ConfigError(
                f"the prefix has {len(ids)} pieces, and this model writes no more than "
                f"{self.max_length}: give fewer than {self.max_length - 1}"
            )
        return self.vocabulary.spelling.extend(prefix)
