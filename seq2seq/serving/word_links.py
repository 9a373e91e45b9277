"""Links between the words of translations and those of their sources."""

from collections.abc import Iterator

from seq2seq.serving.client_request import ClientRequest
from seq2seq.translation.request import TranslationRequest

MAX_PADDED = 128  # pieces of the pairs that are aligned between two steps, or one pair

Slice = list[tuple[TranslationRequest, int]]  # translations: of which sentence, of which rank


def slices_to_align(request: ClientRequest) -> Iterator[Slice]:
    """The translations whose words are linked, as many at a time as take little time."""
    portion: Slice = []
    longest = 0
    for sentence in request.sentences:
        for rank, translation in enumerate(sentence.result.translations[: sentence.links]):
            length = max(len(sentence.ids or ()), len(translation.ids))
            if portion and max(longest, length) * (len(portion) + 1) > MAX_PADDED:
                yield portion
                portion, longest = [], 0
            portion.append((sentence, rank))
            longest = max(longest, length)
    if portion:
        yield portion
