"""A headless browser for the tests of HTML pages, without a driver to install.

Chromium takes commands of the DevTools protocol as JSON through two pipes: it reads from its file
descriptor 3 and writes to its descriptor 4, with a NUL after each message.
"""

import base64
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")
PATIENCE = 60  # seconds for one answer
NAMES_OF_KEYS = "Backspace Tab Enter Escape End Home ArrowLeft ArrowUp ArrowRight ArrowDown z"
KEYS = dict(zip(NAMES_OF_KEYS.split(), (8, 9, 13, 27, 35, 36, 37, 38, 39, 40, 90), strict=True))


def executable() -> str:
    """The path of a browser. Skips the test if no browser is installed."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    pytest.skip(f"no browser is installed: looked for {', '.join(NAMES)}")


class Browser:
    """One window. Everything the page asks the network for is in `requests`, everything it
    complains about in `complaints`."""

    def __init__(self, write: int, read: int):
        self._write, self._read = write, read
        self._rest = b""
        self._request_id = 0
        self._session: str | None = None
        self._loaded: set[str] = set()  # documents, by loader id
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command. Returns: its result."""
        self._request_id += 1
        message: dict[str, Any] = {"id": self._request_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != self._request_id:
            self._note(answer)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def open(self, page: Path | str) -> None:
        """Open a page, a file or an address, and wait until it has been drawn."""
        self.requests.clear()
        self.complaints.clear()
        url = page if isinstance(page, str) else page.resolve().as_uri()
        loader = self.call("Page.navigate", url=url)["loaderId"]
        while loader not in self._loaded:
            self._note(self._message())
        self.settle()

    def settle(self) -> None:
        """Wait until changes are drawn, which takes two frames."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def hover(self, selector: str) -> tuple[float, float]:
        """Move the mouse to the middle of an element, or of its first line if the element goes over
        several, as a word of Chinese may. Returns: where that is.
        """
        x, y = self.run(
            f"(e => {{ e.scrollIntoView({{block: 'center', inline: 'center'}}); "
            "const b = e.getClientRects()[0]; return [b.x + b.width / 2, b.y + b.height / 2]; "
            f"}})(document.querySelector({json.dumps(selector)}))"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()
        return x, y

    def click(self, selector: str) -> None:
        """Move the mouse to the middle of an element, press and release its button."""
        x, y = self.hover(selector)
        for kind in ("mousePressed", "mouseReleased"):
            where = {"x": x, "y": y, "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, **where)
        self.settle()

    def type(self, text: str) -> None:
        """Type into the element in focus, as an input method does: all at once."""
        self.call("Input.insertText", text=text)
        self.settle()

    def wait(self, script: str) -> None:
        """Wait until an expression in the page is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < deadline, f"this never came: {script}"
            time.sleep(0.02)
        self.settle()

    def choose(self, selector: str, value: str) -> None:
        """Set a control and notify the page, as user input does."""
        self.run(
            f"(e => {{ e.value = {json.dumps(value)}; "
            "e.dispatchEvent(new Event('input', {bubbles: true})); "
            f"}})(document.querySelector({json.dumps(selector)}))"
        )
        self.settle()

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press and release a key, with Alt (1), Control (2) or Shift (8)."""
        for kind in ("rawKeyDown", "keyUp"):
            named = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
            self.call("Input.dispatchKeyEvent", type=kind, modifiers=modifiers, **named)
        self.settle()

    def resize(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.settle()

    def dark(self, on: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """A picture of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))[0]
            chunk = os.read(self._read, 2**20) if ready else b""
            assert chunk, "the browser does not answer"
            self._rest += chunk
        raw, _, self._rest = self._rest.partition(b"\0")
        return json.loads(raw)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Page.lifecycleEvent" and parameters["name"] == "load":
            self._loaded.add(parameters["loaderId"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with its profile in the given folder."""
    program = executable()
    (their_read, write), (read, their_write) = os.pipe(), os.pipe()
    log = os.open(os.devnull, os.O_WRONLY)
    # The descriptors may be 3 and 4 themselves: they are first moved out of the way.
    moves = [(their_read, 103), (their_write, 104), (103, 3), (104, 4), (log, 1), (log, 2)]
    options = [*FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    process = os.posix_spawn(
        program,
        [program, *options, "about:blank"],
        dict(os.environ),
        file_actions=[(os.POSIX_SPAWN_DUP2, *move) for move in moves],
        setpgroup=0,
    )
    for descriptor in (their_read, their_write, log):
        os.close(descriptor)
    try:
        chromium = Browser(write, read)
        yield chromium
        chromium._session = None
        chromium.call("Browser.close")
    finally:
        os.close(write)
        os.close(read)
        stop(process)


def stop(process: int) -> None:
    """Wait a moment until the browser has ended, then end what is left of it."""
    for _ in range(100):
        if os.waitpid(process, os.WNOHANG)[0]:
            return
        time.sleep(0.05)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A light window of 1,200 x 900 pixels, for the tests of one file."""
    with browser(tmp_path_factory.mktemp("profile")) as chromium:
        chromium.resize(1200)
        chromium.dark(False)
        yield chromium
