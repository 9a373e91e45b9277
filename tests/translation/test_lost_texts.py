"""A text that the document must contain is lost only if the document lacks it."""

import pytest

from seq2seq.text.documents.files.contents import Cutter
from seq2seq.text.documents.files.formats import open_file
from seq2seq.translation.documents import join_translations, requests_of
from seq2seq.translation.request import Translation

ADDRESS = "https://example.org/c"
TEXTS = [
    (".md", f"Der <{ADDRESS}> Hund liest {ADDRESS}.\n"),
    (".md", f"Der <{ADDRESS}> Hund liest.\n"),
    (".md", f"Der `{ADDRESS}` Hund liest.\n"),
    (".md", f"Der [Hund]({ADDRESS}) liest {ADDRESS} und {ADDRESS}.\n"),
    (".html", f"<p>Der <a href='a'>{ADDRESS}</a> Hund liest.</p>"),
    (".html", f"<p>Der <code>{ADDRESS}</code> Hund liest <b>{ADDRESS}</b>.</p>"),
]


@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize(("suffix", "text"), TEXTS)
def test_a_request_is_flawed_if_the_document_has_lost_an_address(
    suffix: str, text: str, copies: bool, count: int
) -> None:
    """The translation contains the address some number of times."""
    contents = open_file(f"a{suffix}", text.encode(), Cutter("de"))
    (document,) = contents.documents
    (request,) = requests_of([document], copies=copies)
    told = f"The {f'{ADDRESS} and ' * count}dog reads."
    unsatisfied = [group[0] for group in request.must if group[0] not in told]
    request.finish([Translation(told, 0.0, unsatisfied=tuple(unsatisfied))])
    joined = join_translations(document, [request.result.translations[0]], None, "en")
    written = contents.write([joined]).decode()
    assert request.is_flawed == (written.count(ADDRESS) < text.count(ADDRESS))
    assert bool(request.result.problems) == request.is_flawed
