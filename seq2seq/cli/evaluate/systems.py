"""Translate a test set with each system, which is a model or a file of translations."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.base.errors import ConfigError, Seq2SeqError
from seq2seq.cli.evaluate.testset import TestSet, check_hypotheses
from seq2seq.cli.files import is_archive
from seq2seq.cli.models import DecodingOptions, Opened, open_engine
from seq2seq.cli.options import collect_given
from seq2seq.cli.requests import one_line, put_best_first
from seq2seq.data.corpus.mixture import find_components
from seq2seq.data.text.leaks import Leaks, count_leaks
from seq2seq.data.text.lines import check_rereadable, read_lines, similar_names

SIDES = ("source_language", "target_language")


class System(NamedTuple):
    """A system and its translations of the test set."""

    name: str  # as it was typed
    lines: list[str]
    config: dict[str, Any] | None  # configuration of a model; None for a file
    failed: bool  # True if a sentence could not be translated
    truncated: int | None  # translations cut off at the length limit; None for a file
    leaks: Leaks | None = None  # into the training text; None if that cannot be read

    @property
    def content(self) -> bytes:
        """The bytes of a file of the translations."""
        return "".join(f"{line}\n" for line in self.lines).encode()


def check_systems(paths: Sequence[Path], test_set: TestSet, options: DecodingOptions) -> None:
    """Check the systems before the first model is loaded.

    Raises: ConfigError if a path is not a system, or is given twice, and for options of models if
        no path is a model; DataError for a file of translations that does not fit the test set;
        CheckpointError if a model other than the first cannot be opened.
    """
    for index, path in enumerate(paths):
        if path in paths[:index]:
            raise ConfigError(f"{path} is given twice: a system cannot be compared with itself")
        if not path.exists():
            raise ConfigError(
                f"there is no {path}: give a checkpoint, the folder of a run, or a file of "
                f"translations. {similar_names(path)}"
            )
        if not is_model(path):
            check_hypotheses(path, test_set)
    models = [path for path in paths if is_model(path)]
    asked = collect_given(options, DecodingOptions)
    if not models and asked:
        raise ConfigError(f"{next(iter(asked))} is for models, but no PATH is one: leave it out")
    if len(models) > 1:
        if options.ensemble.others:
            raise ConfigError(
                f"--with joins models to one system, and there are {len(models)} PATHs of models: "
                "give the translations of the others as files, by `seq2seq translate ... -o FILE`"
            )
        from seq2seq import checkpoint

        # Opened now, since the first model may translate for hours before the others are needed.
        for path in models[1:]:
            checkpoint.read(path)


def is_model(path: Path) -> bool:
    """True for a folder or a checkpoint, False for a file of translations."""
    if path.is_dir() or path.suffix == ".ckpt":
        return True
    check_rereadable(path)
    return is_archive(path)


def translate(path: Path, test_set: TestSet, options: DecodingOptions) -> System:
    """The translations by a model, or those of a file."""
    if not is_model(path):
        lines = [one_line(line) for line in read_lines(path)]
        return System(str(path), lines, None, False, None)
    name = " + ".join(map(str, options.ensemble.paths(path)))
    return translate_with(open_engine(path, options), name, test_set, options)


def translate_with(
    opened: Opened, name: str, test_set: TestSet, options: DecodingOptions
) -> System:
    """The translations by an open model, in the languages that the options name."""
    from seq2seq.translation.documents import request_lines

    translator = opened.translator
    languages: Any = dict(zip(SIDES, options.languages, strict=True))
    requests = request_lines(test_set.source, translator.context, **languages)
    results = list(translator.stream(requests, opened.engine, rules=opened.rules))
    for result in results:
        put_best_first(result, options.requirements.mbr)
    opened.print_stats(options.engine)
    bests = [result.translations[0] if result.translations else None for result in results]
    # The same lines as in a file, so that both have the same score.
    lines = [one_line(best.text) if best else "" for best in bests]
    truncated = sum(best.truncated for best in bests if best)
    failed = any(result.failed for result in results)
    leaks = leaks_into(translator.config["data"], test_set)
    return System(name, lines, translator.config, failed, truncated, leaks)


def leaks_into(data: dict[str, Any], test_set: TestSet) -> Leaks | None:
    """The leaks of a test set into the training text of a model; None if that cannot be read.

    Args:
        data: options `data` of the model's configuration.
    """
    with suppress(Seq2SeqError, OSError, LookupError, TypeError, ValueError, AttributeError):
        train = (each for each in find_components(data, "train") if not each.is_reversed)
        pairs = (pair for each in train for pair in each.text.pairs())
        return count_leaks([*zip(test_set.source, test_set.first, strict=True)], pairs)
    return None
