"""The order of work for linking the words of translations with those of their sources."""

from collections.abc import Iterator

from seq2seq.data.text.windows import split_by_padding
from seq2seq.serving.client_request import ClientRequest
from seq2seq.translation.request import TranslationRequest

MAX_PADDED = 128  # pieces, with padding, of the pairs aligned between two steps; or a single pair

RankedSentence = tuple[TranslationRequest, int]  # with the rank of one of its translations


def slices_to_align(request: ClientRequest) -> Iterator[list[RankedSentence]]:
    """The translations whose words are to be linked, in portions that take little time each."""

    def length_of(ranked: RankedSentence) -> int:
        sentence, rank = ranked
        return max(len(sentence.ids or ()), len(sentence.result.translations[rank].ids))

    translations = (
        (sentence, rank)
        for sentence in request.sentences
        for rank in range(len(sentence.result.translations[: sentence.links]))
    )
    return split_by_padding(translations, length_of, MAX_PADDED)
