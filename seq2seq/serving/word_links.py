"""Links between the words of translations and those of their sources."""

from collections.abc import Iterator

from seq2seq.data.text.windows import split_by_padding
from seq2seq.serving.client_request import ClientRequest
from seq2seq.translation.request import TranslationRequest

MAX_PADDED = 128  # pieces of the pairs that are aligned between two steps, or one pair

RankedSentence = tuple[TranslationRequest, int]  # one translation of a sentence, by its rank


def slices_to_align(request: ClientRequest) -> Iterator[list[RankedSentence]]:
    """The translations whose words are linked, as many at a time as take little time."""

    def length_of(ranked: RankedSentence) -> int:
        sentence, rank = ranked
        return max(len(sentence.ids or ()), len(sentence.result.translations[rank].ids))

    translations = (
        (sentence, rank)
        for sentence in request.sentences
        for rank in range(len(sentence.result.translations[: sentence.links]))
    )
    return split_by_padding(translations, length_of, MAX_PADDED)
