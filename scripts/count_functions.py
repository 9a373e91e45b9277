"""Count the functions that a reader must pass on the way of a request.

    python scripts/count_functions.py RUN [--list]

Three walks, each counted in distinct functions of the package (with `sys.setprofile`), and the
median of their lines of code:

- start: what `seq2seq translate RUN` calls before it reads the first line of its input;
- line: what it calls from there until the translation of one line is written;
- post: what `seq2seq serve RUN` calls from one POST /translate until the decoder in C is entered.
"""

import argparse
import ast
import contextlib
import http.client
import inspect
import io
import json
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import seq2seq

PACKAGE = str(Path(seq2seq.__file__).parent)
IN_C = os.path.join(PACKAGE, "decoding", "native")
SENTENCE = "Ein Hund läuft."


class Walk:
    """The functions of the package that all threads call while it is open."""

    def __init__(self, until: str | None = None):
        self.functions: set[CodeType] = set()
        self.is_open = False
        self.until = until  # a folder: the first call of a function in it closes the walk

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if not self.is_open or event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        if self.until and code.co_filename.startswith(self.until):
            self.is_open = False
        # Bodies of classes and modules are no functions; comprehensions are part of theirs.
        elif code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):
            self.functions.add(code)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the threads that exist now or are started now."""
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


class Lines(io.RawIOBase):
    """Standard input of one line, which says when it is first read."""

    def __init__(self, on_read: Callable[[], None]):
        self.rest, self.on_read = f"{SENTENCE}\n".encode(), on_read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.on_read()
        part, self.rest = self.rest[: len(buffer)], self.rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def run(*arguments: str) -> None:
    """Run a command of `seq2seq` in this process."""
    from seq2seq.cli.main import run_command

    sys.argv = ["seq2seq", *arguments]
    if code := run_command():
        sys.exit(code)


def walk_translate(path: str) -> tuple[Walk, Walk]:
    """The walks `start` and `line`."""
    start, line = Walk(), Walk()

    def on_read() -> None:
        if start.is_open:
            start.is_open, line.is_open = False, True
            sys.setprofile(line.profile)
            threading.setprofile(line.profile)

    sys.stdin = io.TextIOWrapper(io.BufferedReader(Lines(on_read)))
    start.is_open = True
    with start.watching(), contextlib.redirect_stdout(io.StringIO()):
        run("translate", path)
    return start, line


def walk_post(path: str) -> Walk:
    """The walk `post`, of the second request: the first one does what is done once."""
    walk = Walk(until=IN_C)
    client = threading.Thread(target=post, args=(walk, 8765))
    client.start()
    with walk.watching():
        run("serve", path, "--port", "8765")
    client.join()
    return walk


def post(walk: Walk, port: int) -> None:
    """Translate twice, then end the server."""
    body = json.dumps({"q": SENTENCE, "source": "auto", "target": "en"})
    try:
        while ask(port, "GET", "/health/ready") != 200:
            time.sleep(0.1)
        for walk.is_open in (False, True):
            assert ask(port, "POST", "/translate", body) == 200
        walk.is_open = False
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def ask(port: int, method: str, path: str, body: str | None = None) -> int:
    """Send a request. Returns: the status of the answer; 0 if nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def lines_of_code(code: CodeType) -> int:
    """Lines of a function that are no comments, docstrings or blanks."""
    path = Path(code.co_filename)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        if (node.name, first) == (code.co_name, code.co_firstlineno):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            rows = path.read_text(encoding="utf-8").splitlines()
            last = body[-1].end_lineno if body else node.lineno
            start = body[0].lineno if body else node.lineno
            header = range(node.lineno, node.body[0].lineno)
            wanted = [*header, *range(start, (last or start) + 1)]
            return sum(
                bool(rows[n - 1].strip()) and not rows[n - 1].strip().startswith("#")
                for n in wanted
            )
    return 0


def report(name: str, walk: Walk, listed: bool) -> None:
    sizes = [lines for lines in map(lines_of_code, walk.functions) if lines]
    median = statistics.median(sizes) if sizes else 0
    print(f"{name:6} {len(walk.functions):4} functions, median {median:g} lines")
    if listed:
        for code in sorted(walk.functions, key=lambda c: (c.co_filename, c.co_firstlineno)):
            where = os.path.relpath(code.co_filename, PACKAGE)
            print(f"   {where}:{code.co_firstlineno} {code.co_qualname}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the functions on the way of a request.")
    parser.add_argument("run", help="the folder of a run, or a checkpoint")
    parser.add_argument("--list", action="store_true", help="name the functions")
    arguments = parser.parse_args()
    start, line = walk_translate(arguments.run)
    for name, walk in (("start", start), ("line", line), ("post", walk_post(arguments.run))):
        report(name, walk, arguments.list)


if __name__ == "__main__":
    main()
