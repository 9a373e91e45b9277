"""The main interface to a trained model: translate, align and score texts."""

import sys
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, Unpack

from seq2seq import decoding
from seq2seq.alignment.choice import Alignment, Units
from seq2seq.base.environment import usable_cores
from seq2seq.base.errors import ConfigError
from seq2seq.base.registry import check_range, options_of
from seq2seq.decoding import Engine, Search
from seq2seq.decoding.constraints.lexical import Vocabulary
from seq2seq.decoding.constraints.request import Rules
from seq2seq.decoding.precision import is_native
from seq2seq.decoding.sentence_engine import MAX_UNANSWERED, SentenceEngine
from seq2seq.decoding.shortlist import Shortlist
from seq2seq.decoding.shortlist.file import read_shortlist
from seq2seq.decoding.workers import Workers
from seq2seq.metrics import scoring
from seq2seq.text.languages import is_spaceless
from seq2seq.translation.codec import TextCodec
from seq2seq.translation.problems import warn_of_problems
from seq2seq.translation.request import DIVERGED, Result, Translation, TranslationRequest
from seq2seq.translation.scorer import Languages, Scorer
from seq2seq.translation.text_engine import TextEngine

# Minimum number of requests for which starting a process pays off; it must import torch first.
WORTH_A_PROCESS = 256


class Translator(Scorer):
    """Translates, aligns and scores texts with a trained model.

    Translator.load(path).translate(["Ein Hund läuft."])
    """

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Tables of the target language, for constraints."""
        return Vocabulary(self.target, is_spaceless(self.config["data"]["target"]))

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
        languages = Languages(source_language=source_language, target_language=target_language)
        results = self.stream(texts, engine, prefixes, **languages)
        return [best[0].text if best else "" for best, _ in results]

    def search(self, name: str | None = None, **options: Any) -> Search:
        """The model's configured search, with some options changed.

        Args:
            name: name of a search, such as `greedy` or `beam`; None = the configured search if it
                has all the given options, otherwise the first search that has them.
            options: options of conf/decode; None = as configured.

        Raises: ConfigError for invalid values, if the beam size exceeds the size of the target
            vocabulary, or if a model that reads context cannot have an option.
        """
        configured = self.config["decode"]
        changed = {key: value for key, value in options.items() if value is not None}
        name = decoding.choose_search(self.config, changed) if name is None else name
        accepted = options_of(decoding.SEARCHES.find(name))
        kept = {key: value for key, value in configured.items() if key in accepted}
        search = decoding.build_search({**kept, **changed, "name": name})
        decoding.check_coverage(search, self.model)
        if self.context and (search.min_length_ratio or search.reads_weights):
            raise ConfigError(
                "min_length_ratio and coverage count the pieces of a source, and this model reads "
                "those of the sentences before it as well: leave them out"
            )
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
            shortlist = read_shortlist(Path(shortlist), self.tokenizers)
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
        build: Any = partial(decoding.build_engine, self.model, precision)
        if is_native(model):  # already converted, so all processes can share it
            build = partial(Engine, model)
        build = partial(build, search, guide, shortlist, **values)
        return Workers(engine, build, count, min_requests=minimum)

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
            self.tokenizers,
            self.directions,
            # Texts longer than the positions or the attention can handle are cut as well.
            min(limit, self.model.max_source or limit) - tags,
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
        **languages: Unpack[Languages],
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

    def align(
        self,
        source: str,
        target: str | None = None,
        *,
        units: Units = "words",
        **languages: Unpack[Languages],
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
        self.check_weights()
        if target is None:
            (target,) = self.translate([source], **languages)
        direction, limit = self.directions.find(**languages), self.config["data"]["max_length"]
        ((pair,),) = scoring.read_pairs([(source, target)], self.tokenizers, limit, 1, direction)
        if not pair.source.strip() or not pair.target.strip():
            raise ConfigError("there is nothing to align: one of the two texts is empty")
        (weights,) = scoring.cross_weights(self.model, [pair])
        if not weights.isfinite().all():
            raise ConfigError(f"there is nothing to align: {DIVERGED}")
        return self.alignment_of(pair, weights, units, direction)

    def alternatives(
        self,
        text: str,
        beginning: str = "",
        count: int = 5,
        engine: SentenceEngine | Search | None = None,
        **languages: Unpack[Languages],
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
