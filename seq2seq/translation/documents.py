"""Translate documents: requests for their sentences, and documents from the translations."""

import warnings
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from seq2seq.alignment.choice import Choice
from seq2seq.text.documents.document import Document
from seq2seq.text.documents.placing import WordLinks
from seq2seq.translation.request import Translation, TranslationRequest


def requests_of(
    documents: Iterable[Document],
    *,
    links: int = 1,
    copies: bool = True,
    context: int = 0,
    before: Sequence[str] = (),
    **wishes: Any,
) -> Iterator[TranslationRequest]:
    """The requests for the sentences of documents, which may be parts of one file.

    Args:
        links: number of translations of each sentence whose words are linked to the source, if the
            sentence has tags inside.
        copies: True if the search can force copied texts into translations.
        context: number of sentences before each that the model reads as well.
        before: sentences before the first, which are not translated.
        wishes: other fields of every request; `checked` is True by default.
    """
    earlier = deque(before, maxlen=context)
    for document in documents:
        for number, sentence in enumerate(document.sentences):
            yield request_sentence(
                sentence, document.copies(number), links, copies, context=[*earlier], **wishes
            )
            earlier.append(sentence)


def request_lines(
    lines: Iterable[str], context: int, starts: Container[int] = (), **wishes: Any
) -> Iterator[TranslationRequest]:
    """The requests for lines that are sentences of documents, which blank lines end.

    Args:
        context: number of lines before each that the model reads as well.
        starts: lines, from 0, before which a document ends in any case.
        wishes: other fields of every request.
    """
    earlier: deque[str] = deque(maxlen=context)
    for number, line in enumerate(lines, start=1):
        if number - 1 in starts:
            earlier.clear()
        yield TranslationRequest(line, context=[*earlier], place=f"line {number}", **wishes)
        if line.strip():
            earlier.append(line)
        else:
            earlier.clear()


def request_sentence(
    sentence: str, copied: Sequence[str] | None, links: int = 1, copies: bool = True, **wishes: Any
) -> TranslationRequest:
    """The request for one sentence of a document.

    Args:
        copied: texts in the sentence that are not translated; None if there are no tags inside.
        links, copies, wishes: arguments of `requests_of`.
    """
    request = TranslationRequest(sentence, **({"checked": True} | wishes))
    if copied is not None:
        request.links, request.units, request.inserted = links, "tokens", copied
        request.must = (*request.must, *((text,) for text in copied if copies))
    return request


def add_alignments(
    portion: Sequence[tuple[TranslationRequest, int]], align: Callable[..., Iterable[Any]]
) -> None:
    """Add alignments to translations, except to those that cannot be aligned, such as long ones.

    Args:
        portion: requests with equal `units`, each with the rank of the translation to align.
        align: `Translator.alignments`.
    """
    named = attrgetter("source_language", "target_language")
    for (source, target), group in groupby(portion, lambda ranked: named(ranked[0])):
        ranked = list(group)
        pairs = [(request.text, request.result.translations[rank].text) for request, rank in ranked]
        more = {"source_language": source, "target_language": target}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alignments = list(align(pairs, units=portion[0][0].units, **more))
        for (request, rank), alignment in zip(ranked, alignments, strict=True):
            translations = request.result.translations
            translations[rank] = translations[rank]._replace(alignment=alignment)


def join_translations(
    document: Document, translations: Sequence[Translation], choice: Choice | None, target: str
) -> str:
    """The translated document.

    Args:
        translations: translation of each sentence, aligned if there are tags inside.
        choice: choice of attention weights that link words; None if there are none.
        target: target language.
    """
    links = [links_of(each, choice) for each in translations]
    return document.join([each.text for each in translations], target, links)


def links_of(translation: Translation, choice: Choice | None) -> WordLinks | None:
    """The links between the words of a sentence and its translation; None if it is not aligned."""
    alignment = translation.alignment
    if not (alignment and choice):
        return None
    return WordLinks(
        [(word.start, word.end) for word in alignment.source],
        [(word.start, word.end) for word in alignment.target],
        *alignment.best_links(choice),
    )
