"""Convert texts into sentences to decode, and hypotheses back into texts."""

import math
import re
from bisect import bisect_right
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

from seq2seq.base.symbols import EOS
from seq2seq.decoding.constraints.lexical import Vocabulary
from seq2seq.decoding.constraints.request import Requirements, Rules
from seq2seq.decoding.request import SentenceRequest
from seq2seq.decoding.search import Hypothesis
from seq2seq.metrics.scoring import clean_line
from seq2seq.models.candidates import certain
from seq2seq.text.languages import is_spaceless, space_between
from seq2seq.text.tokenization.directions import Direction, Directions
from seq2seq.text.tokenization.splitting import split_into_parts
from seq2seq.text.tokenization.tokenizer import SEPARATOR, Tokenizers
from seq2seq.translation.request import Translation, TranslationRequest

LONGEST_WORD = 200  # pieces; decoding a longer word takes long and yields nothing useful
MOST_JOINED = 20  # translations of a text in parts; a hundred parts may have a hundred each


@dataclass(frozen=True)
class TextCodec:
    """Converts texts into sentences to decode, and hypotheses back into texts.

    Attributes:
        tokenizers: tokenizers of the model.
        directions: directions of the model.
        limit: maximum number of pieces in a part, including eos but not the tag.
        max_length: maximum number of pieces that the model can write, including eos; None = no
            limit.
        vocabulary: vocabulary of the target.
        rules: rules that all translations must obey; None = no rules.
        shortlist: True if translations use only the pieces of a shortlist.
        context: maximum number of texts before each that the model reads.
    """

    tokenizers: Tokenizers
    directions: Directions
    limit: int
    max_length: int | None
    vocabulary: Vocabulary
    rules: Rules | None = None
    shortlist: bool = False
    context: int = 0

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of each text, without the tag."""
        return self.tokenizers.source.encode_batch([clean_line(text) for text in texts])

    def direction_of(self, request: TranslationRequest) -> Direction:
        """The direction of a text, with as much of its context before it as fits.

        Raises: ConfigError as `Directions.find`.
        """
        direction = self.directions.find(request.source_language, request.target_language)
        if not self.context:
            return direction
        before, room = direction.before, self.limit - len(request.ids or ()) - 1
        for ids in reversed(self.encode(request.context[-self.context :])):
            earlier = (*direction.before, *ids, self.tokenizers.source.tag_id(SEPARATOR))
            room -= len(earlier)
            if room < 0:
                break
            before = earlier + before
        return direction._replace(before=before)

    def endless_words(self, request: TranslationRequest) -> dict[str, int]:
        """The words of a text that have more than `LONGEST_WORD` pieces, with their numbers of
        pieces.
        """
        if is_spaceless(request.direction.source) or len(request.ids or ()) <= LONGEST_WORD:
            return {}
        text = clean_line(request.text)
        ends = [end for _, end in self.tokenizers.source.spans(text)]
        words = ((match[0], *match.span()) for match in re.finditer(r"\S+", text))
        counts = {word: bisect_right(ends, b) - bisect_right(ends, a) for word, a, b in words}
        return {word: count for word, count in counts.items() if count > LONGEST_WORD}

    def requirements_of(self, request: TranslationRequest) -> Requirements | None:
        """The requirements that the translation of a text must meet; None if there are none.

        Raises: as `Requirements`.
        """
        rules, prefix, text = self.rules or Rules(), clean_line(request.prefix), request.text
        phrases = request.must, request.must_not
        if request.endless:
            text = " ".join(
                word for word in clean_line(text).split() if word not in request.endless
            )
        if not (request.prefix or any(phrases) or rules.apply_to(text)):
            return None
        vocabulary = self.vocabulary.in_language(is_spaceless(request.direction.target))
        room = self.max_length and self.max_length - len(request.direction.start)
        return Requirements(rules, vocabulary, text, prefix, *phrases, room)

    def sentences_of(self, request: TranslationRequest) -> list[SentenceRequest]:
        """The sentences to decode for a text, in its direction and with its requirements; also sets
        `request.copied`.

        There is usually one sentence, but several if the text is too long or contains endless
        words, and none if it is blank or has only endless words.
        """
        text, rows = clean_line(request.text), [request.ids or []]
        direction, requirements = request.direction, request.requirements
        start = list(map(certain, direction.start))
        if request.endless or len(rows[0]) > self.limit - 1:
            parts, request.copied = self._cut(text, request.endless)
            rows = self.tokenizers.source.encode_batch(parts)
        elif not text.strip():
            rows = []
        return [
            SentenceRequest(
                [*direction.before, *row, EOS],
                start if part or requirements is None else [*start, *requirements.forced],
                request.search,
                None if requirements is None else requirements.constraint(part),
                owner=request.owner,
            )
            for part, row in enumerate(rows)
        ]

    def _cut(self, text: str, endless: Container[str]) -> tuple[list[str], list[str]]:
        """Cut a text into parts to translate.

        Returns: the parts, and the texts to copy before each part and after the last.
        """
        parts, copied = [], [""]
        words = re.findall(r"\S+\s*", text)
        for is_endless, group in groupby(words, lambda word: word.rstrip() in endless):
            piece = "".join(group).strip()
            if is_endless or (endless and not any(map(str.isalnum, piece))):
                copied[-1] += f" {piece}"
                continue
            # White space is not translated.
            new = split_into_parts(piece, self.tokenizers.source, self.limit - 1)
            parts += [part for part in new if part.strip()]
            copied += [""] * (len(parts) + 1 - len(copied))
        return parts, copied

    def translations_of(
        self, request: TranslationRequest, parts: Sequence[list[Hypothesis]]
    ) -> list[Translation]:
        """The translations of a text, best first: the best hypotheses of all parts joined, then the
        second best, and so on.

        There are as many as every part has hypotheses, but at most `MOST_JOINED` for several parts.
        Hypotheses whose probability is not finite are left out.

        Args:
            parts: hypotheses of each part, best first.
        """
        start = len(request.direction.start)  # the given tags are no part of a translation
        finite = [[h for h in part if math.isfinite(h.score)] for part in parts]
        ranks = list(zip(*finite, strict=False))[: MOST_JOINED if len(parts) > 1 else None]
        texts = iter(self.tokenizers.target.decode_batch([h.ids for rank in ranks for h in rank]))
        return [
            Translation(
                self.join(request, [next(texts) for _ in rank]),
                sum(h.score for h in rank) / len(rank),
                [i for h in rank for i in (h.ids if h.truncated else [*h.ids, EOS])[start:]],
                tuple(value for h in rank for value in h.token_logp[start:]),
                any(h.truncated for h in rank),
                shortlist=self.shortlist,
            )
            for rank in ranks
        ]

    def join(self, request: TranslationRequest, texts: Sequence[str]) -> str:
        """Join the translations of the parts of a text with its copied texts, between which there
        are spaces; the result has none around it.
        """
        rows = zip_longest(request.copied, texts, fillvalue="")
        between = " " if any(request.copied) else space_between(request.direction.target)
        return between.join(filter(None, (text.strip() for row in rows for text in row)))
