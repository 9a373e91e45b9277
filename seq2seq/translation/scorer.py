"""A trained model with its tokenizers and directions: the scores and alignments of given texts."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self, TypedDict, Unpack

import torch
from torch import Tensor

from seq2seq import checkpoint
from seq2seq.alignment.choice import SHIFTS, Alignment, Choice, Units, best_known_choice
from seq2seq.alignment.links import Span, Word, spans_to_words, words, words_and_marks
from seq2seq.alignment.projection import word_weights
from seq2seq.attention import ATTENTION
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS, NAMES
from seq2seq.checkpoint.folder import find_checkpoint
from seq2seq.decoding.precision import decoding_precision, find_device, with_precision
from seq2seq.metrics import scoring
from seq2seq.metrics.scoring import Pair, TranslationScore
from seq2seq.models import Ensemble, Seq2Seq
from seq2seq.models.ensemble import Mean
from seq2seq.text.languages import is_spaceless
from seq2seq.text.tokenization.directions import ANY, Codes, Direction, Directions
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.translation.request import DIVERGED


class Languages(TypedDict, total=False):
    """The languages of a text and of its translation, as for `Directions.find`."""

    source_language: str | None
    target_language: str | None


class Scorer:
    """Scores and aligns given translations with a trained model, in one pass, without a search."""

    def __init__(
        self,
        saved: checkpoint.Saved,
        device: str = "auto",
        tag: str | None = None,
        model: Seq2Seq | None = None,
        languages: Codes = ANY,
    ):
        self.device = find_device(device)
        self.tokenizers = Tokenizers(saved.source, saved.target)
        self.source, self.target = self.tokenizers
        data = saved.config["data"]
        self.directions = Directions(data, self.tokenizers, tag, languages)
        self.config = {**saved.config, "data": {**data, **self.directions.defaults}}
        self.model = (saved.build() if model is None else model).to(self.device)
        self.context: int = data.get("context", 0)  # sentences before each that the model reads
        self._converted: dict[str, Seq2Seq] = {}  # by precision

    @classmethod
    def load(
        cls, path: str | Path, device: str = "auto", tag: str | None = None, languages: Codes = ANY
    ) -> Self:
        """Open a checkpoint, or a run's folder (its best.ckpt).

        Args:
            device: `cpu`, `cuda`, or `auto` for a GPU if there is one.
            tag: tag of the training corpus to imitate, which is put before every source; None = no
                tag, or the run's own direction if it was trained in both.
            languages: source and target language of texts that name none, for a model of several;
                None = the model's own default.

        Raises: CheckpointError if the path holds no model; ConfigError for an unknown device, tag
            or language.
        """
        return cls(checkpoint.read(path), device, tag, languages=languages)

    @classmethod
    def ensemble(
        cls,
        paths: Sequence[str | Path],
        *,
        weights: Sequence[float] | None = None,
        mean: Mean = "probabilities",
        device: str = "auto",
        tag: str | None = None,
        languages: Codes = ANY,
    ) -> Self:
        """Open several models with the same pieces, to translate and score together.

        The search is configured as in the first model.

        Args:
            paths: paths as in `load`.
            weights, mean: arguments of `Ensemble`.
            device, tag, languages: arguments of `load`.

        Raises: as `load`; ConfigError if the models cannot be joined, and as `Ensemble`.
        """
        members = checkpoint.read_ensemble(paths)
        data = members[0].config["data"]
        longest = min(each.config["data"]["max_length"] for each in members)
        config = {**members[0].config, "data": {**data, "max_length": longest}}
        model = Ensemble([each.build() for each in members], weights, mean)
        return cls(members[0]._replace(config=config), device, tag, model, languages)

    def convert(self, precision: str) -> Seq2Seq:
        """The model in this precision; converted on the first call and kept."""
        precision = decoding_precision(precision, self.device)
        if precision not in self._converted:
            self._converted[precision] = with_precision(self.model, precision)
        return self._converted[precision]

    def alignments(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        units: Units = "words",
        **languages: Unpack[Languages],
    ) -> Iterator[Alignment | None]:
        """Align any number of sources and targets in constant memory, and yield the alignments in
        order.

        If a pair cannot be aligned (empty, or longer than any in training), its alignment is None,
        and a warning says which pair it is, and why.

        Raises: ConfigError if the model's cross-attention has no weights.
        """
        self.check_weights()
        direction = self.directions.find(**languages)
        computed = self._compute(scoring.cross_weights, pairs, direction)
        for line_no, (pair, weights) in enumerate(computed, start=1):
            if weights is not None and weights.isfinite().all():
                yield self.alignment_of(pair, weights, units, direction)
            else:
                reason = pair.refusal or DIVERGED
                warnings.warn(f"line {line_no} cannot be aligned: {reason}", stacklevel=2)
                yield None

    def find_choice(self, path: str | Path) -> Choice | None:
        """The best known choice of attention weights for linking words, or None if the model has no
        weights: the choice saved with the model, else the head trained to align, else a guess.

        Args:
            path: checkpoint, or folder of a run; a saved choice is in a file beside it.

        Raises: DataError if the saved choice is damaged.
        """
        try:
            self.check_weights()
        except ConfigError:
            return None
        return best_known_choice(find_checkpoint(Path(path)), self.config, self.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of decoder layers, and of heads in each, whose weights `align` returns."""
        cross = self.model.cross_attentions
        return len(cross), getattr(cross[0], "num_heads", 1)

    def score(
        self, sources: Iterable[str], targets: Iterable[str], **languages: Unpack[Languages]
    ) -> list[TranslationScore]:
        """The probability of each target as the translation of its source, in order.

        Args:
            languages: `source_language` and `target_language`, as for `Directions.find`.

        Raises: ValueError if the numbers of sources and targets differ.
        """
        return list(self.scores(zip(sources, targets, strict=True), **languages))

    def scores(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        look_ahead: int = 2000,
        **languages: Unpack[Languages],
    ) -> Iterator[TranslationScore]:
        """Like `score`, but for any number of pairs in constant memory.

        Args:
            pairs: sources and targets, read as needed.
            look_ahead: number of pairs read at a time, to form batches of similar lengths.
            languages: as in `score`.
        """
        direction = self.directions.find(**languages)
        compute = scoring.log_probabilities
        for pair, logp in self._compute(compute, pairs, direction, look_ahead):
            if logp is None:
                yield TranslationScore(None, [], pair.refusal)
            else:
                pieces = [*self.target.pieces(pair.target), NAMES[EOS]]
                yield TranslationScore.of(pieces, logp[len(direction.start) :].tolist())

    def _compute(
        self,
        compute: Callable[[Seq2Seq, Sequence[Pair]], list[Tensor]],
        texts: Iterable[tuple[str, str]],
        direction: Direction,
        look_ahead: int = 2000,
    ) -> Iterator[tuple[Pair, Tensor | None]]:
        """Yield each pair with the tensor that `compute` makes of it; None if it is refused."""
        limit = self.config["data"]["max_length"]
        for window in scoring.read_pairs(texts, self.tokenizers, limit, look_ahead, direction):
            found = iter(compute(self.model, [pair for pair in window if pair.refusal is None]))
            for pair in window:
                yield pair, next(found) if pair.refusal is None else None

    def check_weights(self) -> None:
        """Raises: ConfigError if the model's cross-attention has no weights to align by."""
        if isinstance(self.model, Ensemble):
            raise ConfigError(
                "the models of an ensemble have different attention weights: align with one of the "
                "models, Translator.load(PATH)"
            )
        cross = self.config["attention"]["cross"]["name"]
        mechanism = ATTENTION.find(cross)
        if not mechanism.shows_weights:
            raise ConfigError(
                f"attention {cross!r} has no weights to draw: {mechanism.no_weights}. Train "
                "with a cross-attention that has weights, such as attn@cross_attn=mha"
            )

    def alignment_of(self, pair: Pair, weights: Tensor, units: Units, way: Direction) -> Alignment:
        """Convert weights between pieces into an alignment between the units of both texts."""
        spans = self.source.spans(pair.source), self.target.spans(pair.target)
        source = units_of(pair.source, spans[0], way.source, units)
        target = units_of(pair.target, spans[1], way.target, units)
        of_text = weights[..., len(way.start) :, len(way.before) :]  # without the tags
        # Row t is the step that wrote piece t, row t + 1 the step that read it. The last is eos.
        readings = torch.stack([of_text.roll(-shift, -2) for shift in SHIFTS])
        return Alignment(source, target, word_weights(readings, spans, (source, target)))

    def by_piece(self, side: str, units: Units) -> bool:
        """True if this side, `source` or `target`, is aligned by pieces instead of words, in the
        default direction.
        """
        return units == "subwords" or is_spaceless(self.config["data"][side])


def units_of(text: str, spans: list[Span], language: str | None, units: Units) -> list[Word]:
    """The units of a text to align.

    Args:
        spans: spans of its pieces.
        language: language of the text; pieces are the units if it is written without spaces.
        units: units as for `Translator.align`.
    """
    if units == "subwords" or is_spaceless(language):
        return spans_to_words(text, spans)
    return words(text) if units == "words" else words_and_marks(text)
