"""The main interface to a trained model: translate, align and score texts."""

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from seq2seq import checkpoint, decoding
from seq2seq.alignment.choice import SHIFTS, Alignment, Choice, Units, best_known_choice
from seq2seq.alignment.links import Span, Word, spans_to_words, words, words_and_marks
from seq2seq.alignment.projection import word_weights
from seq2seq.attention import ATTENTION
from seq2seq.base.environment import usable_cores
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range, options_of
from seq2seq.base.symbols import EOS, NAMES
from seq2seq.checkpoint.folder import find_checkpoint
from seq2seq.decoding import Engine, Search
from seq2seq.decoding.constraints.lexical import Vocabulary
from seq2seq.decoding.constraints.request import Rules
from seq2seq.decoding.precision import decoding_precision, find_device, is_native, with_precision
from seq2seq.decoding.sentence_engine import MAX_UNANSWERED, SentenceEngine
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.decoding.shortlist.file import read_shortlist
from seq2seq.decoding.workers import Workers
from seq2seq.metrics import scoring
from seq2seq.metrics.scoring import Pair, TranslationScore
from seq2seq.models import Ensemble, Seq2Seq
from seq2seq.models.ensemble import Mean
from seq2seq.text.languages import is_spaceless
from seq2seq.text.tokenization.directions import ANY, Codes, Direction, Directions
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.translation.codec import TextCodec
from seq2seq.translation.problems import warn_of_problems
from seq2seq.translation.request import DIVERGED, Result, Translation, TranslationRequest
from seq2seq.translation.text_engine import TextEngine

# Minimum number of requests for which starting a process pays off; it must import torch first.
WORTH_A_PROCESS = 256


class Translator:
    """Translates, aligns and scores texts with a trained model.

    Translator.load(path).translate(["Ein Hund läuft."])
    """

    def __init__(
        self,
        saved: checkpoint.Saved,
        device: str = "auto",
        tag: str | None = None,
        model: Seq2Seq | None = None,
        languages: Codes = ANY,
    ):
        self.device = find_device(device)
        self.source, self.target = saved.source, saved.target
        tokenizers, data = Tokenizers(self.source, self.target), saved.config["data"]
        self.directions = Directions(data, tokenizers, tag, languages)
        self.config = {**saved.config, "data": {**data, **self.directions.defaults}}
        self.model = (saved.build() if model is None else model).to(self.device)
        self.context: int = data.get("context", 0)
        self.vocabulary = Vocabulary(self.target, is_spaceless(self.config["data"]["target"]))
        self._max_source = self.model.max_source
        self._converted: dict[str, Seq2Seq] = {}  # by precision

    @classmethod
    def load(
        cls, path: str | Path, device: str = "auto", tag: str | None = None, languages: Codes = ANY
    ) -> "Translator":
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
    ) -> "Translator":
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

    def translate(
        self,
        texts: Iterable[str],
        *,
        prefixes: str | Iterable[str] = "",
        workers: int | Literal["auto"] = 1,
        source_language: str | None = None,
        target_language: str | None = None,
        **options: Any,
    ) -> list[str]:
        """The best translation of each text, in order; an empty string for an empty text.

        Args:
            prefixes: text that each translation begins with: one for all, or one for each text.
            workers: number of processes, as in `engine`.
            source_language, target_language: languages, as for `Directions.find`.
            options: options of the search, such as `beam_size=4` or `length_penalty=0.6`; see
                `search`.
        """
        engine = self.engine(self.search(**options), workers=workers)
        languages: Any = {"source_language": source_language, "target_language": target_language}
        results = self.stream(texts, engine, prefixes, **languages)
        return [best[0].text if best else "" for best, _ in results]

    def search(self, name: str | None = None, **options: Any) -> Search:
        """The model's configured search, with some options changed.

        Args:
            name: name of a search, such as `greedy` or `beam`; None = the configured search if it
                has all the given options, otherwise the first search that has them.
            options: options of conf/decode; None = as configured.

        Raises: ConfigError for invalid values, or if the beam size exceeds the size of the target
            vocabulary.
        """
        configured = self.config["decode"]
        changed = {key: value for key, value in options.items() if value is not None}
        name = decoding.choose_search(self.config, changed) if name is None else name
        accepted = options_of(decoding.SEARCHES.find(name))
        kept = {key: value for key, value in configured.items() if key in accepted}
        search = decoding.build_search({**kept, **changed, "name": name})
        decoding.check_coverage(search, self.model)
        if search.beams > self.target.size:
            what = "samples" if name == "sample" else "beams"
            raise ConfigError(
                f"{search.beams} {what} are more than the {self.target.size} pieces that this "
                "model can write: use fewer, for example 5"
            )
        return search

    def engine(
        self,
        search: Search | None = None,
        *,
        batch_size: int | None = None,
        shortlist: str | Path | Shortlist | None = None,
        **options: Any,
    ) -> Engine | Workers:
        """An engine that runs a search over any number of sentences, to pass to `stream`.

        Args:
            search: result of `search`; None = the configured search.
            batch_size: maximum number of sentences that each process decodes at once; None = as
                many as `rows` allows.
            shortlist: shortlist of pieces that translations may contain, or its file, or the folder
                of a run that has one; None = allow all pieces.
            options: options of conf/decode; None = as configured. `cache`: `auto`, `dense`,
                `paged` or `static`; `rows`, `pages`, `page_size`, `memory`: see `Engine`;
                `precision`: `auto`, `float32`, `bfloat16` or `int8`; `workers`: maximum number of
                processes, with one thread each. With `auto` there is one per CPU core, but no extra
                process for a few sentences, nor on systems other than Linux. No process is
                started if `workers` is 1, or on a GPU.

        Raises: ConfigError for invalid values; DataError if the shortlist is for another model.
        """
        search = search or self.search()
        if isinstance(shortlist, str | Path):
            shortlist = read_shortlist(Path(shortlist), Tokenizers(self.source, self.target))
        changed = {name: value for name, value in options.items() if value is not None}
        if batch_size is not None:
            check_range("batch_size", batch_size, 1, maximum=10_000)
            changed["rows"] = batch_size * search.beams
        values = decoding.engine_options({**self.config["decode"], **changed})
        workers, precision = values.pop("workers"), values.pop("precision")
        guide = self.vocabulary.guide
        model = self.convert(precision)
        engine = Engine(model, search, guide, shortlist, **values)
        count, minimum = (usable_cores(), WORTH_A_PROCESS) if workers == "auto" else (workers, 1)
        is_untested = workers == "auto" and sys.platform != "linux"
        if count == 1 or self.device.type != "cpu" or is_untested:
            return engine
        if is_native(model):  # already converted, so all processes can share it
            build = partial(Engine, model, search, guide, shortlist, **values)
        else:
            build = partial(
                decoding.build_engine, self.model, precision, search, guide, shortlist, **values
            )
        return Workers(engine, build, count, min_requests=minimum)

    def convert(self, precision: str) -> Seq2Seq:
        """The model in this precision; converted on the first call and kept."""
        precision = decoding_precision(precision, self.device)
        if precision not in self._converted:
            self._converted[precision] = with_precision(self.model, precision)
        return self._converted[precision]

    def text_engine(
        self,
        engine: SentenceEngine | Search,
        max_source: int | None = None,
        rules: Rules | None = None,
    ) -> TextEngine:
        """An engine for texts that uses an engine for sentences; arguments as in `stream`."""
        limit = self.config["data"]["max_length"] if max_source is None else max_source
        tags = self.directions.tags
        if limit < 2 + tags:
            raise ConfigError(
                f"--max-source {limit} leaves no room for a piece and the end symbol: give "
                f"{2 + tags} or more"
            )
        if isinstance(engine, Search):
            engine = Engine(self.convert("float32"), engine, self.vocabulary.guide)
        codec = TextCodec(
            Tokenizers(self.source, self.target),
            self.directions,
            # Texts longer than the positions or the attention can handle are cut as well.
            min(limit, self._max_source or limit) - tags,
            self.model.max_length,
            self.vocabulary,
            rules,
            engine.shortlist is not None,
            self.context,
        )
        return TextEngine(engine, codec)

    def stream(
        self,
        texts: Iterable[str | TranslationRequest],
        engine: SentenceEngine | Search,
        prefixes: str | Iterable[str] = "",
        *,
        rules: Rules | None = None,
        max_source: int | None = None,
        max_unanswered: int = MAX_UNANSWERED,
        **languages: Any,
    ) -> Iterator[Result]:
        """Translate any number of texts in constant memory, and yield their results in order.

        The engine reads ahead as far as it needs to form batches of similar lengths. A translation
        does not depend on the other texts in its batch. Problems are in the results, and are also
        issued as warnings.

        Args:
            texts: texts, read as needed, for example from an open file: line endings are ignored. A
                `TranslationRequest` can set requirements for its translation.
            engine: result of `engine`, or a search to run in this process with default options.
            prefixes: text that the translations of strings begin with: one for all, or one for each
                text.
            rules: rules that all translations must obey.
            max_source: number of pieces (including eos) above which a text is translated in parts;
                None = the limit in training.
            max_unanswered: maximum number of texts to read before the first result.
            languages: `source_language` and `target_language` of strings, as for
                `Directions.find`.

        Raises: ConfigError if a text can never be translated, for example because the model cannot
            write its prefix.
        """
        if isinstance(texts, str):
            raise TypeError("texts should be a list of strings, not one string: give [text]")
        if isinstance(prefixes, str):
            pairs = zip(texts, repeat(prefixes), strict=False)
        else:
            pairs = zip(texts, prefixes, strict=True)
        requests = (
            TranslationRequest(text, prefix, place=f"line {n}", **languages)
            if isinstance(text, str)
            else text
            for n, (text, prefix) in enumerate(pairs, start=1)
        )
        translate = self.text_engine(engine, max_source, rules).translate
        ended = translate(requests, max_unanswered=max_unanswered)
        return (request.result for request in warn_of_problems(ended))

    def alternatives(
        self,
        text: str,
        beginning: str = "",
        count: int = 5,
        engine: SentenceEngine | Search | None = None,
        **languages: Any,
    ) -> list[Translation]:
        """The best translations that begin alike and differ in the next piece, best first.

        Args:
            beginning: text that they begin with; unless it ends in a space, its last word may
                continue.
            count: maximum number of translations.
            engine: engine that completes them, as in `stream`; None = the configured search.
            languages: as in `stream`.

        Raises: ConfigError if the text is blank or too long for one part, and as `stream`.
        """
        request = TranslationRequest(text, beginning, alternatives=count, **languages)
        for _ in self.text_engine(engine or self.search()).translate([request]):
            if request.error:
                raise request.error
        return request.result.translations

    def align(
        self, source: str, target: str | None = None, *, units: Units = "words", **languages: Any
    ) -> Alignment:
        """The alignment of a source with a target text, computed in one pass (teacher forcing).

        Args:
            target: text to align with; None = the model's translation of `source`.
            units: `words` between spaces; `tokens`, where each punctuation mark is a separate unit;
                or `subwords`, the tokenizer's pieces. A language written without spaces always uses
                pieces.
            languages: `source_language` and `target_language`, as for `Directions.find`.

        Raises: ConfigError if the model's cross-attention has no weights, or a text is empty.
        """
        self._check_weights()
        if target is None:
            target = self.translate([source], **languages)[0]
        direction = self.directions.find(**languages)
        ((pair,),) = self._pairs([(source, target)], direction)
        if not pair.source.strip() or not pair.target.strip():
            raise ConfigError("there is nothing to align: one of the two texts is empty")
        (weights,) = scoring.cross_weights(self.model, [pair])
        if not weights.isfinite().all():
            raise ConfigError(f"there is nothing to align: {DIVERGED}")
        return self._alignment(pair, weights, units, direction)

    def alignments(
        self, pairs: Iterable[tuple[str, str]], *, units: Units = "words", **languages: Any
    ) -> Iterator[Alignment | None]:
        """Align any number of sources and targets in constant memory, and yield the alignments in
        order.

        If a pair cannot be aligned (empty, or longer than any in training), its alignment is None,
        and a warning says which pair it is, and why.

        Raises: ConfigError if the model's cross-attention has no weights.
        """
        self._check_weights()
        line_no, direction = 0, self.directions.find(**languages)
        for window in self._pairs(pairs, direction):
            maps = iter(scoring.cross_weights(self.model, [p for p in window if p.refusal is None]))
            for pair in window:
                line_no += 1
                weights = next(maps) if pair.refusal is None else None
                if weights is not None and weights.isfinite().all():
                    yield self._alignment(pair, weights, units, direction)
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
            self._check_weights()
        except ConfigError:
            return None
        return best_known_choice(find_checkpoint(Path(path)), self.config, self.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of decoder layers, and of heads in each, whose weights `align` returns."""
        cross = self.model.cross_attentions
        return len(cross), getattr(cross[0], "num_heads", 1)

    def score(
        self, sources: Iterable[str], targets: Iterable[str], **languages: Any
    ) -> list[TranslationScore]:
        """The probability of each target as the translation of its source, in order.

        Args:
            languages: `source_language` and `target_language`, as for `Directions.find`.

        Raises: ValueError if the numbers of sources and targets differ.
        """
        return list(self.scores(zip(sources, targets, strict=True), **languages))

    def scores(
        self, pairs: Iterable[tuple[str, str]], *, look_ahead: int = 2000, **languages: Any
    ) -> Iterator[TranslationScore]:
        """Like `score`, but for any number of pairs in constant memory.

        Args:
            pairs: sources and targets, read as needed.
            look_ahead: number of pairs read at a time, to form batches of similar lengths.
            languages: as in `score`.
        """
        direction = self.directions.find(**languages)
        for window in self._pairs(pairs, direction, look_ahead):
            logps = iter(
                scoring.log_probabilities(self.model, [p for p in window if p.refusal is None])
            )
            for pair in window:
                if pair.refusal is None:
                    pieces = [*self.target.pieces(pair.target), NAMES[EOS]]
                    logp = next(logps)[len(direction.start) :]
                    yield TranslationScore.of(pieces, logp.tolist())
                else:
                    yield TranslationScore(None, [], pair.refusal)

    def _pairs(
        self, texts: Iterable[tuple[str, str]], direction: Direction, look_ahead: int = 2000
    ) -> Iterator[list[Pair]]:
        tokenizers, limit = Tokenizers(self.source, self.target), self.config["data"]["max_length"]
        return scoring.read_pairs(texts, tokenizers, limit, look_ahead, direction)

    def _check_weights(self) -> None:
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

    def _alignment(self, pair: Pair, weights: Tensor, units: Units, way: Direction) -> Alignment:
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
