"""A document as requests for its sentences, and with their translations."""

from collections.abc import Sequence
from typing import Any

from seq2seq.alignment.choice import Choice
from seq2seq.documents.document import Document
from seq2seq.documents.placing import WordLinks
from seq2seq.translation.request import Translation, TranslationRequest


def requests_of(
    document: Document, *, links: int = 1, copies: bool = True, **wishes: Any
) -> list[TranslationRequest]:
    """The requests for the sentences of a document.

    Args:
        links: of how many translations of a sentence with tags inside the words are linked.
        copies: can the search see to it that translations contain what is copied?
        wishes: fields of every request.
    """
    requests = []
    for number, sentence in enumerate(document.sentences):
        request = TranslationRequest(sentence, **wishes)
        if document.elements[number]:
            request.links, request.units = links, "tokens"
            copied = document.copies(number) if copies else []
            request.must = (*request.must, *((text,) for text in copied))
        requests.append(request)
    return requests


def join_translations(
    document: Document, translations: Sequence[Translation], choice: Choice | None, target: str
) -> str:
    """A document with translations of its sentences, which are aligned where there are tags inside.

    Args:
        choice: the weights that link words.
        target: the language.
    """
    links = [
        WordLinks(
            [(word.start, word.end) for word in each.alignment.source],
            [(word.start, word.end) for word in each.alignment.target],
            *each.alignment.best_links(choice),
        )
        if each.alignment and choice
        else None
        for each in translations
    ]
    return document.join([each.text for each in translations], target, links)
