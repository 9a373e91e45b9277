"""Links between the words of translations and those of their sources."""

import warnings
from collections.abc import Iterator

from seq2seq.serving.client_request import ClientRequest
from seq2seq.translation.request import TranslationRequest
from seq2seq.translator import Translator

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


def align_slice(translator: Translator, portion: Slice) -> None:
    """Add alignments to translations, except to those that cannot be aligned, such as long ones."""
    pairs = [(sentence.text, sentence.result.translations[rank].text) for sentence, rank in portion]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alignments = list(translator.alignments(pairs, units=portion[0][0].units))
    for (sentence, rank), alignment in zip(portion, alignments, strict=True):
        translations = sentence.result.translations
        translations[rank] = translations[rank]._replace(alignment=alignment)
