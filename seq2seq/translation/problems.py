"""Warnings about the problems of texts."""

import warnings
from collections.abc import Callable, Generator, Iterable
from functools import partial

from seq2seq.translation.request import SHOWN, TranslationRequest

warn_of_input = partial(warnings.warn, stacklevel=3)


def warn_of_problems(
    requests: Iterable[TranslationRequest],
    *,
    lenient: bool = False,
    warn: Callable[[str], object] = warn_of_input,
) -> Generator[TranslationRequest, None, None]:
    """Pass finished requests on, in order, and warn of their problems, naming their places. At the
    end, warn of all translations that the length limit cut off.

    Args:
        lenient: whether a refused text is a problem like any other, not an error.
        warn: function that is given each message.

    Raises: the error of a request that has failed for no problem with its text.
    """
    truncated: list[str] = []  # places, the first ones
    count = 0
    for request in requests:
        problems = {problem.kind: problem for problem in request.result.problems}
        if problem := problems.pop("truncated", None):
            truncated += [request.place] if count < SHOWN else []
            count += 1
        error = request.error
        if error and (not request.result.failed or ("refused" in problems and not lenient)):
            raise type(error)(f"{request.place}: {error}") from error
        for problem in problems.values():
            warn(problem.at(request.place))
        yield request
    if count:
        places = join_places(truncated) + ", ..." * (count > SHOWN)
        warn(
            f"cut off at the length limit: {count:,} translation(s), of {places}. To allow longer "
            "ones, raise --length-ratio (and --max-length, if given)"
        )


def join_places(places: list[str]) -> str:
    """Join places that end in numbers, naming what precedes the numbers once: `line 1, 3`."""
    parts = [place.rpartition(" ") for place in places]
    earlier = [None, *(before for before, _, _ in parts)]
    return ", ".join(
        number if before == previous else place
        for place, (before, _, number), previous in zip(places, parts, earlier, strict=False)
    )
