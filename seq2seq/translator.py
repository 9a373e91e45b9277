"""A trained model for people: text in, text out."""

import math
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq import checkpoint
from seq2seq.attention import ATTENTION
from seq2seq.data.segments import segments
from seq2seq.data.tokenizer import Tokenizers
from seq2seq.data.windows import by_length, padded, windows
from seq2seq.decoding import Beam, Search, build_search, decode
from seq2seq.errors import ConfigError
from seq2seq.evaluation.alignment import Span, Word, pieces, word_weights, words
from seq2seq.evaluation.languages import is_spaceless
from seq2seq.evaluation.maps import Alignment
from seq2seq.forcing.pairs import Pair, read_pairs, without_surrogates
from seq2seq.forcing.passes import Score, cross_weights, log_probabilities
from seq2seq.symbols import EOS, NAMES
from seq2seq.tables import options_of

BATCH_PIECES = 4096  # padded source pieces times beams translated at once
MOST_BEAMS = 1000
DIVERGED = "the model computes what is no number. Its weights are damaged, or its training diverged"


class Translation(NamedTuple):
    """One translation of one text."""

    text: str
    score: float  # log-probability by the length penalty; of a text in parts, the mean over parts


class Translator:
    """Translates, and shows where it looks. `Translator.load(path).translate(["Ein Hund
    läuft."])`.
    """

    def __init__(self, saved: checkpoint.Saved, device: str = "auto", tag: str | None = None):
        self.device = find_device(device)
        self.config = saved.config
        self.source = saved.source if tag is None else saved.source.marked(tag)
        self.target = saved.target
        self.model = saved.build().to(self.device)

    @classmethod
    def load(cls, path: str | Path, device: str = "auto", tag: str | None = None) -> "Translator":
        """Open a checkpoint, or a run's folder (its best.ckpt).

        Args:
            device: `cpu`, `cuda`, or `auto`: a GPU if there is one.
            tag: of the training corpus whose translations are wanted; it is put before all sources.

        Raises: CheckpointError if the path holds no model; ConfigError if there is no such device
            or tag.
        """
        return cls(checkpoint.read(path), device, tag)

    def translate(
        self,
        texts: Iterable[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> list[str]:
        """The best translation of each text, in order; an empty text for an empty one.

        Args:
            beam_size: hypotheses kept; None as the model was configured.
            length_penalty: score = log-probability / length^penalty; None as configured.
        """
        search = self.search(beam_size=beam_size, length_penalty=length_penalty)
        return [found[0].text if found else "" for found in self.stream(texts, search)]

    def search(
        self, *, beam_size: int | None = None, length_penalty: float | None = None
    ) -> Search:
        """The search of the model's configuration, with these values instead of its own.

        Raises: ConfigError for values that make no sense, and for a beam of more hypotheses than
            the target has pieces, or than 1,000: it would fill the memory.
        """
        given = {"beam_size": beam_size, "length_penalty": length_penalty}
        changed = {name: value for name, value in given.items() if value is not None}
        options = dict(self.config["decode"])
        if changed:
            shared = {name: options[name] for name in options_of(Beam) if name in options}
            options = {**shared, "name": "beam", **changed}
        search = build_search(options)
        most = min(self.target.size, MOST_BEAMS)
        if search.beams > most:
            raise ConfigError(
                f"beam-size={search.beams} is more than {most}, the widest search of this model. "
                "5 is usual: --beam-size 5"
            )
        return search

    def stream(
        self,
        texts: Iterable[str | None],
        search: Search,
        *,
        max_source: int | None = None,
        look_ahead: int = 2000,
    ) -> Iterator[list[Translation] | None]:
        """All hypotheses of each text, best first, in the order of the texts; none for an empty
        text, None for what cannot be translated.

        Works through any number of texts in constant memory: `look_ahead` of them at a time, fewer
        if they are long, are put in batches of like lengths. No translation depends on which texts
        share its batch. A model that finds no translation of finite probability gives a warning
        with the number of the text.

        Args:
            texts: read as they are needed; None stands for one that could not be read.
            search: from `search` above.
            max_source: pieces (with eos) beyond which a text is cut and translated in parts; None
                as in training.
            look_ahead: texts that are read before the first is answered.
        """
        if isinstance(texts, str):
            raise TypeError("one text is given as a list of one: [text]")
        limit = self.config["data"]["max_length"] if max_source is None else max_source
        tags = len(self.source.prefix)
        if limit < 2 + tags:
            raise ConfigError(
                f"max-source={limit} leaves no room for a piece and the end: {2 + tags} or more"
            )
        # What positions or attention do not reach is cut like any other text that is too long.
        limit = min(limit, self.model.max_source or limit) - tags
        target = self.config["data"]["target"]
        between = "" if is_spaceless(target) else " "
        for window in windows(enumerate(texts, start=1), look_ahead, lambda t: len(t[1] or "")):
            parts = [self._parts(text or "", limit, number) for number, text in window]
            found = iter(self._translate([part for text in parts for part in text], search))
            for (number, text), cut in zip(window, parts, strict=True):
                joined = join([next(found) for _ in cut], between)
                if cut and not joined:
                    warnings.warn(
                        f"line {number} has no translation of finite probability: {DIVERGED}",
                        stacklevel=2,
                    )
                yield None if text is None or (cut and not joined) else joined

    def align(self, source: str, target: str | None = None, *, units: str = "words") -> Alignment:
        """Where the model looks while it writes `target`, or else its own translation.

        One pass over the given pair: the weights are those of teacher forcing.

        Args:
            units: `words` between spaces (pieces in a language that puts no spaces), or `subwords`,
                the tokenizer's pieces.

        Raises: ConfigError if the model's cross-attention has no weights, or a text is empty.
        """
        self._check_weights()
        if target is None:
            target = self.translate([source])[0]
        ((pair,),) = self._pairs([(source, target)], look_ahead=1)
        if not pair.source.strip() or not pair.target.strip():
            raise ConfigError("there is nothing to align: one of the two texts is empty")
        (weights,) = cross_weights(self.model, [pair])
        if not weights.isfinite().all():
            raise ConfigError(f"there is nothing to align: {DIVERGED}")
        return self._alignment(pair, weights, units)

    def alignments(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        units: str = "words",
        look_ahead: int = 2000,
    ) -> Iterator[Alignment | None]:
        """The alignments of any number of sources and targets, in order, in constant memory.

        None for a pair that cannot be aligned (empty, or longer than any in training), with a
        warning that says which and why.

        Raises: ConfigError if the model's cross-attention has no weights.
        """
        self._check_weights()
        number = 0
        for window in self._pairs(pairs, look_ahead):
            found = iter(cross_weights(self.model, [p for p in window if p.refusal is None]))
            for pair in window:
                number += 1
                weights = next(found) if pair.refusal is None else None
                if weights is not None and weights.isfinite().all():
                    yield self._alignment(pair, weights, units)
                else:
                    reason = pair.refusal or DIVERGED
                    warnings.warn(f"line {number} cannot be aligned: {reason}", stacklevel=2)
                    yield None

    def score(self, sources: Iterable[str], targets: Iterable[str]) -> list[Score]:
        """How probable each target is as the translation of its source, in order.

        Raises: ValueError if there are more of one than of the other.
        """
        return list(self.scores(zip(sources, targets, strict=True)))

    def scores(
        self, pairs: Iterable[tuple[str, str]], *, look_ahead: int = 2000
    ) -> Iterator[Score]:
        """`score` for any number of sources and targets, read as they are needed, in constant
        memory: `look_ahead` of them at a time are put in batches of like lengths.
        """
        for window in self._pairs(pairs, look_ahead):
            found = iter(log_probabilities(self.model, [p for p in window if p.refusal is None]))
            for pair in window:
                if pair.refusal is None:
                    values = next(found).tolist()
                    yield Score.of([*self.target.pieces(pair.target), NAMES[EOS]], values)
                else:
                    yield Score(None, [], pair.refusal)

    def _pairs(self, texts: Iterable[tuple[str, str]], look_ahead: int) -> Iterator[list[Pair]]:
        tokenizers = Tokenizers(self.source, self.target)
        return read_pairs(texts, tokenizers, self.config["data"]["max_length"], look_ahead)

    def _check_weights(self) -> None:
        cross = self.config["attention"]["cross"]["name"]
        mechanism = ATTENTION.find(cross)
        if not mechanism.shows_weights:
            raise ConfigError(
                f"attention {cross!r} has no weights to draw: {mechanism.no_weights}. Maps are of "
                "models whose cross-attention has them: train with attn@cross_attn=mha, for example"
            )

    def _alignment(self, pair: Pair, weights: Tensor, units: str) -> Alignment:
        """Weights between pieces as weights between the units of both texts."""
        spans = self.source.spans(pair.source), self.target.spans(pair.target)
        source = self._units(pair.source, spans[0], "source", units)
        target = self._units(pair.target, spans[1], "target", units)
        of_text = weights[..., len(self.source.prefix) :]  # nobody wants to see the tag
        return Alignment(source, target, word_weights(of_text, *spans, source, target, end=True))

    def _units(self, text: str, spans: list[Span], side: str, units: str) -> list[Word]:
        by_piece = units == "subwords" or is_spaceless(self.config["data"][side])
        return pieces(text, spans) if by_piece else words(text)

    def _parts(self, text: str, limit: int, number: int) -> list[str]:
        """What is translated of the text of that number, in parts if it is too long."""
        text = without_surrogates(text)
        # White space alone has no translation.
        parts = [part for part in segments(text, self.source, limit - 1) if part.strip()]
        if len(parts) > 1:
            warnings.warn(
                f"line {number} is longer than {limit} pieces: translated in {len(parts)} parts",
                stacklevel=2,
            )
        return parts

    def _translate(self, texts: list[str], search: Search) -> list[list[Translation]]:
        """Hypotheses of texts that all fit, decoded in batches of like lengths, longest first."""
        rows = self.source.encode_batch(texts)
        results: list[list[Translation]] = [[] for _ in texts]
        for batch in by_length([len(row) + 1 for row in rows], BATCH_PIECES // search.beams):
            source = padded([[*rows[i], EOS] for i in batch]).to(self.device)
            found = decode(self.model, source, search)
            for i, hypotheses in zip(batch, found, strict=True):
                decoded = self.target.decode_batch([h.ids for h in hypotheses])
                results[i] = [
                    Translation(text, h.score)
                    for text, h in zip(decoded, hypotheses, strict=True)
                    if math.isfinite(h.score)
                ]
        return results


def find_device(name: str) -> torch.device:
    """The device of that name; `auto` is a GPU if there is one.

    Raises: ConfigError if torch does not know it or cannot use it here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            f"device {name!r} cannot be used here: {str(error).splitlines()[0]}. "
            "Choose cpu, cuda or auto"
        ) from error
    return device


def join(parts: list[list[Translation]], between: str = " ") -> list[Translation]:
    """The hypotheses of a text from those of its parts, rank by rank, as many as all parts have."""
    if len(parts) == 1:
        return parts[0]
    return [
        Translation(
            between.join(p.text.strip() for p in rank), sum(p.score for p in rank) / len(rank)
        )
        for rank in zip(*parts, strict=False)
    ]
