"""Warnings about problems with texts to translate."""

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
    """Pass on finished requests, in order, and warn of the problems and places of their texts. At
    the end, warn once of all translations that the length limit cut off.

    Args:
        lenient: True = warn of refused texts; False = raise their errors.
        warn: function called with each message.

    Raises: the error of a request that failed for a reason other than a problem with its text, or
        that was refused, unless `lenient`.
    """
    truncated: list[str] = []  # the first few places
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
    """Join the names of places without repeating what precedes the numbers: `line 1, 3`."""
    parts = [place.rpartition(" ") for place in places]
    earlier = [None, *(before for before, _, _ in parts)]
    return ", ".join(
        number if before == previous else place
        for place, (before, _, number), previous in zip(places, parts, earlier, strict=False)
    )
