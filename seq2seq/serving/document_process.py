"""The process that reads one file of a client, and writes it again with its translations.

Files may be hostile, and parsing them is pure Python, so it happens in a process that takes no time
or memory from anybody else. The process has a low priority, and limits on memory and computing time
that suit the size of its file; the system ends it if it exceeds them. The service starts one for
each document, and kills it when nobody waits for the document any more. It imports neither torch
nor a model.

Messages go through its standard input and output. Each is a line with the lengths of the two parts
that follow, a JSON object and bytes. The service sends `open`, then `next` with the translations of
the sentences it got last, until no sentence is left, and then `write`.
"""

import io
import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from seq2seq.base.errors import DataError
from seq2seq.text.documents.document import Document
from seq2seq.text.documents.files.contents import Cutter
from seq2seq.text.documents.files.formats import LONGEST, open_file
from seq2seq.text.documents.placing import WordLinks

PARSING, WRITING = 10, 60  # seconds of computing allowed
# Bytes of memory allowed: for any document, and for each of its unpacked bytes. The service itself
# needs further memory for a document.
MEMORY, MEMORY_PER_BYTE = 150 * 2**20, 50
PORTION, PORTION_CHARACTERS = 8, 2000  # sentences sent at once, and their characters
SAMPLE = 2000  # characters used to detect the language

Message = tuple[dict[str, Any], bytes]


def pack_message(entry: dict[str, Any], data: bytes = b"") -> bytes:
    """A message, encoded for the pipe."""
    text = json.dumps(entry).encode()
    return b"%d %d\n%s%s" % (len(text), len(data), text, data)


class DocumentReader:
    """Reads and writes a file; each message from the service calls one of its methods.

    Attributes:
        contents: Contents of the file; set by `open`.
        translations: Translations received so far, each with the links between its words.
    """

    def __init__(self, name: str, data: bytes):
        self.name, self.data = name, data
        self.translations: list[tuple[str, WordLinks | None]] = []

    def sample(self) -> Message:
        """A sample to detect the language by. Raises: DataError if the file cannot be read."""
        documents = open_file(self.name, self.data, Cutter(None)).documents[:100]
        return {"sample": " ".join(" ".join(each.sentences) for each in documents)[:SAMPLE]}, b""

    def open(self, language: str, whole: bool) -> Message:
        """Read the file; arguments as for `Cutter`. Raises: DataError if it cannot be read."""
        self.contents = open_file(self.name, self.data, Cutter(language, whole))
        self._portions = portions_of(self.contents.documents)
        lengths = [len(each) for document in self.contents.documents for each in document.sentences]
        return {"characters": sum(lengths), "longest": max(lengths, default=0)}, b""

    def next(self, translations: list[tuple[str, Any]]) -> Message:
        """The next sentences; an empty list after the last.

        Args:
            translations: Translations of the sentences that were sent before, each with the fields
                of its `WordLinks`.
        """
        self.translations += [
            (text, links and parse_word_links(links)) for text, links in translations
        ]
        return {"sentences": next(self._portions, [])}, b""

    def write(self, target: str) -> Message:
        """The translated file. Raises: DataError if it cannot be written."""
        given = iter(self.translations)
        texts = []
        for document in self.contents.documents:
            pairs = [next(given) for _ in document.sentences]
            texts.append(document.join([text for text, _ in pairs], target, [x for _, x in pairs]))
        data = self.contents.write(texts)
        return {"problems": self.contents.problems}, data


def portions_of(documents: list[Document]) -> Iterator[list[dict[str, Any]]]:
    """The sentences of documents, with the texts to copy from each (None for one without tags)."""
    portion: list[dict[str, Any]] = []
    characters = 0
    for document in documents:
        for number, text in enumerate(document.sentences):
            characters += len(text)
            if portion and (len(portion) == PORTION or characters > PORTION_CHARACTERS):
                yield portion
                portion, characters = [], len(text)
            copied = document.copies(number) if document.elements[number] else None
            portion.append({"sentence": text, "copied": copied})
    if portion:
        yield portion


def parse_word_links(fields: list[Any]) -> WordLinks:
    """The links that were sent as JSON, which turns tuples into lists."""
    source, target, links, nearest = fields
    spans = [tuple(each) for each in source], [tuple(each) for each in target]
    return WordLinks(*spans, {tuple(each) for each in links}, nearest)


def count_unpacked(data: bytes) -> int:
    """The bytes of a file, or of the files in an archive up to the limit of what is read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except Exception:  # the reader of the format will say what is wrong
        size = 0
    return max(len(data), min(size, LONGEST))


def limit_own_memory(data: bytes) -> None:
    """Limit the memory of this process to what its file may need, where the system allows it."""
    with suppress(OSError, ValueError):
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = taken + MEMORY + MEMORY_PER_BYTE * count_unpacked(data)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def limit_seconds(seconds: int) -> None:
    """Let the system end this process after that many more seconds of computing."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + seconds, hard))


def answer(reader: DocumentReader, verb: str, arguments: dict[str, Any]) -> Message:
    """The answer to a message, or a description of the error."""
    try:
        limit_seconds(WRITING if verb == "write" else PARSING)
        message: Message = getattr(reader, verb)(**arguments)
        return message
    except DataError as error:
        problem = {"status": 400, "error": str(error)}
    except MemoryError:
        much = f"{reader.name} needs more memory than a file of its size may use"
        problem = {"status": 413, "error": f"{much}: split it into several files"}
    except Exception as error:  # the message may contain the client's text
        bug = "\n".join([type(error).__name__, *traceback.format_tb(error.__traceback__)])
        problem = {"status": 500, "error": "an error in the server: see its log", "bug": bug}
    return problem, b""


def receive(stream: BinaryIO) -> Message | None:
    """The next message; None at the end."""
    head = stream.readline().split()
    if not head:
        return None
    return json.loads(stream.read(int(head[0]))), stream.read(int(head[1]))


def main() -> None:
    """Answer messages until the service closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service decides when this process ends
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed does not mix with the messages
    if first := receive(sys.stdin.buffer):
        limit_own_memory(first[1])
        reader = DocumentReader(first[0]["name"], first[1])
    while message := receive(sys.stdin.buffer):
        arguments = message[0]
        stream.write(pack_message(*answer(reader, arguments.pop("verb"), arguments)))
        stream.flush()


if __name__ == "__main__":
    main()
