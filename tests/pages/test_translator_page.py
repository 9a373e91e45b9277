"""The page of the service, in a real browser, before a stub that answers what is known."""

import json
import math
import re
import threading
import time
from collections.abc import Iterator
from email.parser import BytesParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from helpers import browser
from helpers.browser import Browser

import seq2seq

window = browser.window
pytestmark = pytest.mark.slow

PAGE = Path(seq2seq.__file__).parent / "serving" / "page"
THEME = Path(seq2seq.__file__).parent / "pages" / "theme.css"
# The strictest under which the page should work.
POLICY = "default-src 'none'; form-action 'none'; base-uri 'none'; " + "; ".join(
    f"{kind}-src 'self'" for kind in ("script", "style", "connect", "img")
)
WIDTHS = 1200, 360
EVIL = "<script>document.title='stolen'</script> <img src=x onerror=document.title='stolen'>"


def word_table(source: str, target: str) -> dict[str, str]:
    """The words of two texts of equally many words."""
    return dict(zip(source.split(), target.split(), strict=True))


GERMAN = "Ein Hund läuft. Eine Katze schläft."
WORDS = word_table(f"{GERMAN} Der groß 😀", "A dog runs. A cat sleeps. The big 😀")
WORDS |= word_table("A dog runs. The cat", "ال كلب يركض. ال قط")
CHINESE = word_table(GERMAN, "一只 狗 在跑。 一只 猫 在睡觉。")
MODELS = [
    ("de-en", "de", "en", "German", "English"),
    ("en-de", "en", "de", "English", "German"),
    ("en-ar", "en", "ar", "English", "Arabic"),
    ("de-zh", "de", "zh", "German", "Chinese"),
    ("ar-en", "ar", "en", "Arabic", "English"),
]


class Stub(ThreadingHTTPServer):
    """Translates word by word. `asked` has the path and the body of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.reset()

    def reset(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.refusals: list[tuple[int, dict[str, str]]] = []  # before all answers
        self.key: str | None = None
        self.delay = 0.0
        self.detected: dict[str, Any] | None = None
        self.settings: dict[str, Any] = {}
        self.characters = 1000  # at most in a request
        self.unmet: list[str] = []
        self.rows: list[str] = []  # texts of the second and further translations of a sentence

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def of(self, path: str) -> list[dict[str, Any]]:
        return [body for each, body in self.asked if each == path]


class Answers(SimpleHTTPRequestHandler):
    server: Stub

    def __init__(self, *arguments: Any):
        super().__init__(*arguments, directory=str(PAGE))

    def log_message(self, *_: object) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def translate_path(self, path: str) -> str:
        return str(THEME) if path == "/theme.css" else super().translate_path(path)

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            names = ("name", "source", "target", "source_name", "target_name")
            models = [
                dict(zip(names, m, strict=True), links=True, context=1, beam_size=5) for m in MODELS
            ]
            limits = {"characters": self.server.characters, "beam_size": 10, "alternatives": 10}
            self.answer({"models": models, "limits": limits})
        elif self.path == "/frontend/settings":
            self.answer(self.server.settings)
        elif self.path == "/download_file/1":
            self.answer(["a file"])
        else:
            super().do_GET()

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        is_form = self.path == "/translate_file"
        body = read_form(self.headers["Content-Type"], sent) if is_form else json.loads(sent)
        self.server.asked.append((self.path, body))
        if self.server.refusals:
            code, headers = self.server.refusals.pop(0)
            self.answer({"error": f"refused <b>{code}</b>"}, code, headers)
            return
        time.sleep(self.server.delay)
        if self.path == "/suggest":
            self.answer({"success": True})
            return
        if is_form:
            self.answer({"translatedFileUrl": "http://wrong.example/download_file/1"})
            return
        prefix = body.get("prefix", "")
        whole = body.get("split") is False or self.path == "/v1/alternatives"
        parts = [body["text"]] if whole else re.split(r"(?<=[.!?])(\s+)|(\n+)", body["text"])
        sentences, text = [], ""
        for part in parts:
            if part and part.strip():
                sentences.append(sentence(" ".join(part.split()), prefix, body, self.path))
                if self.server.unmet:
                    sentences[-1]["translations"][0]["unmet"] = self.server.unmet
                translations = sentences[-1]["translations"]
                for row, translation in zip(self.server.rows, translations[1:], strict=False):
                    translation["text"] = row
                text += translations[0]["text"]
            else:
                text += part or ""
        name, source, target, *_ = next(m for m in MODELS if m[0] == body["model"])
        answer = {"model": name, "source": source, "target": target}
        if self.server.detected:
            answer["detected"] = self.server.detected
        self.answer({**answer, "text": text, "sentences": sentences})

    def answer(self, content: Any, code: int = 200, headers: dict[str, str] | None = None) -> None:
        if self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            content, code = {"error": "this needs a key"}, 403
        data = json.dumps(content).encode()
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def read_form(kind: str, sent: bytes) -> dict[str, Any]:
    """The fields of a form; of a file, its name and content."""
    parts = BytesParser().parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + sent).get_payload()
    fields: dict[str, Any] = {}
    for part in parts:
        content, name = part.get_payload(decode=True), part.get_filename()
        field = part.get_param("name", header="content-disposition")
        fields[field] = (name, content) if name else content.decode()
    return fields


def listed(text: str) -> list[dict[str, Any]]:
    found = re.finditer(r"\S+", text)
    return [{"text": m[0], "start": m.start(), "end": m.end()} for m in found]


def sentence(source: str, prefix: str, body: dict[str, Any], path: str) -> dict[str, Any]:
    """Word n is linked with word n. Of each sentence, the model is not sure of the second word. Of
    a prefix, all words before its last space are complete. Chinese words are apart, for counting.
    """
    table = CHINESE if body["model"] == "de-zh" else WORDS
    words = [table.get(word, word) for word in source.split(" ")]
    is_complete, begun = prefix.endswith((" ", "")[not prefix]), prefix.split()
    if not is_complete:
        last = begun[-1]
        expected = words[len(begun) - 1] if len(begun) <= len(words) else ""
        begun[-1] = expected if expected.startswith(last) else last
    ways = path == "/v1/alternatives"
    translations = []
    for n in range(body.get("count", 5) if ways else body.get("nbest", 1)):
        rest = words[len(begun) :]
        if n and ways:
            rest[0] += str(n)
        text = " ".join([*begun, *rest]) + f" ({n})" * bool(n and not ways)
        target = listed(text)
        tokens = [[f" {word['text']}", -2.0 if i == 1 else -0.1] for i, word in enumerate(target)]
        links = [[i, i] for i in range(min(len(target), len(words)))]
        scores = {"score": -0.5 - n, "confidence": 0.9 / (n + 1), "truncated": n == 4}
        translation = {"text": text, **scores, "tokens": [*tokens, ["</s>", -0.1]]}
        translations.append({**translation, "words": target, "links": links})
    return {"source": source, "source_words": listed(source), "translations": translations}


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(params=WIDTHS)
def page(window: Browser, stub: Stub, request: pytest.FixtureRequest) -> Iterator[Browser]:
    """The page, opened anew, that has complained about nothing at the end."""
    stub.reset()
    window.resize(request.param)
    window.open(stub.address)
    window.wait("document.querySelector('#model').options.length > 0")
    yield window
    assert all(url.startswith(stub.address) for url in window.requests)
    assert not window.complaints
    wide = window.run("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]


def reopen(page: Browser, stub: Stub, **settings: Any) -> None:
    """Open the page of a service with other settings."""
    stub.settings = settings
    page.open(stub.address)
    page.wait("document.querySelector('#model').options.length")


def focus(page: Browser, selector: str) -> None:
    page.run(f"document.querySelector({json.dumps(selector)}).focus()")


def value(page: Browser, side: str = "target") -> str:
    return str(page.run(f"document.querySelector('#{side}').value"))


def translated(page: Browser, text: str, model: int = 0) -> str:
    """Type a text. Returns: its translation."""
    page.run(
        f"(m => {{ m.selectedIndex = {model}; m.dispatchEvent(new Event('change')) }})"
        "(document.querySelector('#model'))"
    )
    focus(page, "#source")
    page.type(text)
    page.wait(
        "document.querySelector('#target').value && !document.querySelector('[aria-busy=true]')"
    )
    return value(page)


def texts(page: Browser, selector: str) -> list[str]:
    script = f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"
    return list(page.run(script))


def word(side: str, n: int, index: int = 0) -> str:
    return f"[data-side={side}][data-index='{index}'][data-word='{n}']"


def at(page: Browser, place: int) -> None:
    """Put the cursor into the translation."""
    page.run(
        f"(t => {{ t.focus(); t.setSelectionRange({place}, {place}) }})"
        "(document.querySelector('#target'))"
    )
    page.settle()


TEXT = "Ein  Hund läuft.\n\n  Eine Katze schläft.\n"
ENGLISH = "A dog runs.\n\n  A cat sleeps.\n"


def test_a_text_is_translated_while_it_is_typed(page: Browser, stub: Stub) -> None:
    assert translated(page, TEXT) == ENGLISH
    assert [body["text"] for body in stub.of("/v1/translate")] == [TEXT]
    for side in ("source", "target"):
        drawn = page.run(f"document.querySelector('#{side}').previousElementSibling.textContent")
        assert drawn == value(page, side) + "\u200b"


def test_an_answer_to_what_is_no_longer_there_is_not_waited_for(page: Browser, stub: Stub) -> None:
    stub.delay = 1.0
    page.type("Eine Katze")
    page.wait("document.querySelector('[aria-busy=true]')")
    stub.delay = 0.0
    assert translated(page, " schläft.") == "A cat sleeps."
    time.sleep(1.2)
    assert value(page) == "A cat sleeps."
    assert 2 <= len(stub.of("/v1/translate")) <= 3  # `translated` also chooses a model


@pytest.mark.parametrize(
    ("model", "text"), [(0, TEXT), (2, "A dog runs. A cat sleeps."), (3, TEXT)]
)
def test_the_links_of_the_word_under_the_pointer_are_shown(
    page: Browser, model: int, text: str
) -> None:
    translated(page, text.rstrip(), model)
    for side, other in (("target", "source"), ("source", "target")):
        for index, n in ((0, 0), (0, 2), (1, 1)):
            page.hover(word(side, n, index))
            assert texts(page, ".held") == texts(page, word(side, n, index))
            assert texts(page, ".link") == texts(page, word(other, n, index)) != []
    page.hover("h1")
    assert texts(page, ".link") == texts(page, word("target", 2, 1))  # of the word at the cursor


def test_the_links_of_the_word_at_the_cursor_are_said(page: Browser) -> None:
    translated(page, TEXT)
    page.hover("h1")
    at(page, 3)
    page.press("ArrowUp", modifiers=1)
    assert texts(page, "#target-status") == ["“dog” is linked with “Hund”"]
    assert texts(page, ".link") == ["Hund"]


LONG = {
    0: "Ein  Hund läuft. 😀 Eine Katze\tschläft. " * 5
    + "\n\n Donaudampfschifffahrtsgesellschaft" * 3,
    2: "A dog runs. The cat runs. " * 6 + "\n\nThe dog.",
    3: "Ein Hund läuft. Eine Katze schläft. " * 8,
    4: "ال كلب يركض. قط. Latin 12. " * 8,
}


@pytest.mark.parametrize("model", LONG)
def test_a_click_on_a_drawn_word_puts_the_cursor_into_it(page: Browser, model: int) -> None:
    """So the text that is drawn lies exactly over the one that is edited."""
    translated(page, LONG[model], model)
    page.run("document.querySelector('#ways').style.setProperty('display', 'none', 'important')")
    for side in ("source", "target"):
        script = "(t => [t.scrollHeight - t.clientHeight, [...t.previousElementSibling.children]"
        script += ".map(s => [s.textContent.length, s.dataset.word, s.dataset.index])])"
        overflow, spans = page.run(f"{script}(document.querySelector('#{side}'))")
        assert overflow <= 0
        end = 0
        for length, n, index in spans:
            begin, end = end, end + length
            if n is not None and int(index) % 3 == 0:
                page.click(word(side, int(n), int(index)))
                place = page.run(f"document.querySelector('#{side}').selectionStart")
                assert begin <= place <= end
    page.press("Escape")


@pytest.mark.parametrize("by_keys", [False, True])
def test_a_word_has_alternatives_and_the_chosen_one_goes_on(
    page: Browser, stub: Stub, by_keys: bool
) -> None:
    translated(page, TEXT)
    if by_keys:
        at(page, ENGLISH.index("cat") + 1)
        page.press("ArrowDown", modifiers=1)
    else:
        page.click(word("target", 1, 1))
    page.wait("!document.querySelector('#ways').hidden")
    asked = stub.of("/v1/alternatives")[-1]
    assert (asked["text"], asked["prefix"], asked["count"]) == ("Eine Katze schläft.", "A ", 5)
    assert asked["context"] == "Ein Hund läuft."
    names = [f"cat{n or ''} sleeps." for n in range(5)]
    assert texts(page, "#ways bdi") == names
    box = page.run(
        "(b => [b.left, b.right])(document.querySelector('#ways').getBoundingClientRect())"
    )
    assert box[0] >= 0 and box[1] <= page.run("innerWidth")
    if by_keys:
        for key in ("ArrowUp", "ArrowDown", "ArrowDown", "ArrowDown"):  # round the end
            page.press(key)
        assert texts(page, ":focus bdi") == names[2:3]
        page.press("Enter")
    else:
        page.click("#ways li:nth-child(3)")
    assert value(page) == ENGLISH.replace("cat", "cat2")
    assert page.run("[document.activeElement.id, document.querySelector('#ways').hidden]") == [
        *("target", True)
    ]
    page.hover(word("target", 1, 1))
    assert texts(page, ".link") == ["Katze"]
    page.press("z", modifiers=2)
    assert value(page) == ENGLISH


def test_alternatives_are_closed_by_escape_typing_and_a_click_elsewhere(page: Browser) -> None:
    translated(page, TEXT)
    for close in ("press", "type", "click"):
        page.click(word("target", 1, 1))
        page.wait("!document.querySelector('#ways').hidden")
        getattr(page, close)({"press": "Escape", "type": "x", "click": "h1"}[close])
        assert page.run("document.querySelector('#ways').hidden")


def test_what_a_person_made_of_a_sentence_stays_when_another_is_changed(page: Browser) -> None:
    translated(page, TEXT)
    page.click(word("target", 1))
    page.wait("!document.querySelector('#ways').hidden")
    page.click("#ways li:nth-child(2)")
    page.run(
        "(s => { s.focus(); s.setSelectionRange(s.value.length, s.value.length) })"
        "(document.querySelector('#source'))"
    )
    page.type("Ein Hund läuft.")
    page.wait("document.querySelector('#target').value.endsWith('runs.')")
    assert value(page) == "A dog1 runs.\n\n  A cat sleeps.\nA dog runs."


def ghost(page: Browser) -> str:
    return "".join(texts(page, ".ghost"))


def proposed(page: Browser, typed: str, place: int, end: str) -> None:
    """Type at a place, and wait until the service has proposed how to go on."""
    at(page, place)
    page.type(typed)
    page.wait(f"document.querySelector('#target').value.includes({json.dumps(end)})")


def test_typing_in_the_translation_is_completed_and_tab_accepts(page: Browser, stub: Stub) -> None:
    translated(page, TEXT)
    proposed(page, "s", ENGLISH.index("cat"), "A s sleeps.")
    asked = stub.of("/v1/translate")[-1]
    assert (asked["text"], asked["prefix"]) == ("Eine Katze schläft.", "A s")
    assert [each["context"] for each in stub.of("/v1/translate")] == ["", "Ein Hund läuft."]
    assert ghost(page) == " sleeps."
    assert texts(page, "#target-status") == ["Proposed: “sleeps.”. Tab accepts"]
    place = value(page).index(" sleeps")
    assert page.run("document.querySelector('#target').selectionStart") == place
    page.press("Tab")
    assert ghost(page) == "" and value(page) == ENGLISH.replace("cat", "s")
    assert page.run("document.activeElement.selectionStart") == place + len(" sleeps.")
    page.press("Tab")  # nothing is proposed: the key has its usual meaning
    assert page.run("document.activeElement.id") == "copy"


@pytest.mark.parametrize("end", [".", "!", "?”"])
def test_a_finished_sentence_gets_no_proposal(page: Browser, stub: Stub, end: str) -> None:
    translated(page, "Ein Hund läuft.")
    at(page, len("A dog runs."))
    page.press("Backspace")
    page.wait("document.querySelector('.ghost')")  # the sentence has no end any more
    before = len(stub.of("/v1/translate"))
    page.type(end)
    time.sleep(0.6)
    assert ghost(page) == "" and value(page) == f"A dog runs{end}"
    assert len(stub.of("/v1/translate")) == before


def test_escape_brings_back_what_stood_there(page: Browser) -> None:
    translated(page, TEXT)
    proposed(page, "s ", ENGLISH.index("cat"), "A s sleeps.")
    page.type("s")
    page.press("Escape")
    assert value(page) == ENGLISH.replace("cat", "s scat") and ghost(page) == ""


def test_what_is_typed_may_be_what_was_proposed(page: Browser, stub: Stub) -> None:
    translated(page, TEXT)
    proposed(page, "s", ENGLISH.index("cat"), "A s sleeps.")
    before = len(stub.asked)
    for letter in " sle":
        page.type(letter)
    assert value(page) == ENGLISH.replace("cat", "s") and ghost(page) == "eps."
    time.sleep(0.4)
    assert len(stub.asked) == before
    page.press("Backspace")
    page.wait("document.querySelector('.ghost')?.textContent === 'eeps.'")
    assert value(page) == ENGLISH.replace("cat", "s")


def test_who_goes_on_elsewhere_does_not_take_the_proposal(page: Browser) -> None:
    translated(page, TEXT)
    for place in (0, ENGLISH.index("cat") + len("s sleeps.\n")):  # before it, and after it
        proposed(page, "s", ENGLISH.index("cat"), "A s sleeps.")
        at(page, place)
        assert ghost(page) == "" and value(page) == ENGLISH.replace("cat", "scat")
        page.press("z", modifiers=2)
        assert value(page) == ENGLISH


@pytest.mark.parametrize("key", ["Tab", "Escape", "ArrowLeft", "z"])
def test_grey_words_become_the_persons_own_by_tab_alone(
    page: Browser, stub: Stub, key: str
) -> None:
    reopen(page, stub, suggestions=True)
    translated(page, TEXT)
    for typed, shown in (("s", "A s sleeps."), ("x", "A sx sleeps.")):  # so there is much to undo
        page.type(typed) if typed == "x" else proposed(page, typed, ENGLISH.index("cat"), shown)
        page.wait(f"document.querySelector('#target').value.includes({json.dumps(shown)})")
        assert ghost(page) == " sleeps."
        for send in (lambda: page.click("#suggest"), lambda: page.press("Enter", modifiers=2)):
            send()
            assert texts(page, "#suggest") == ["Tab accepts the grey words, Esc removes them"]
            focus(page, "#target")
    page.press(key, modifiers=2 * (key == "z"))
    own = {"Tab": "A sx sleeps.", "z": "A scat sleeps."}.get(key, "A sxcat sleeps.")
    assert value(page) == ENGLISH.replace("A cat sleeps.", own) and ghost(page) == ""
    focus(page, "#target")
    page.press("Enter", modifiers=2)
    page.wait("document.querySelector('#suggest').textContent.startsWith('Sent')")
    assert [body["s"] for body in stub.of("/suggest")] == [own]


def test_grey_words_are_gone_when_the_source_is_changed(page: Browser) -> None:
    translated(page, TEXT)
    proposed(page, "s", ENGLISH.index("cat"), "A s sleeps.")
    focus(page, "#source")
    page.type("Ein Hund.")
    page.wait("document.querySelector('#target').value.includes('A scat sleeps.')")


def test_all_edits_can_be_undone(page: Browser) -> None:
    translated(page, TEXT)
    page.run("(t => { t.focus(); t.select() })(document.querySelector('#target'))")
    page.type("My own text.")
    assert value(page) == "My own text."
    at(page, 2)
    page.type("!")
    assert value(page) == "My! own text." and ghost(page) == ""
    page.press("z", modifiers=2)
    page.press("z", modifiers=2)
    assert value(page) == ENGLISH
    page.hover(word("target", 1, 1))
    assert texts(page, ".link") == ["Katze"]


def test_other_translations_have_confidences_and_can_be_chosen(page: Browser) -> None:
    translated(page, TEXT)
    at(page, 1)
    rows = [f"A dog runs.{f' ({n})' * bool(n)}" for n in range(5)]
    assert texts(page, "#others bdi") == rows
    assert texts(page, "#others small")[1] == "45 %"
    assert texts(page, "#others small")[4] == "18 % · cut off"
    assert texts(page, "[aria-pressed=true] bdi") == rows[:1]
    page.click("#others li:nth-child(4) button")
    assert value(page) == ENGLISH.replace("runs.", "runs. (3)")
    assert texts(page, "[aria-pressed=true] bdi") == [rows[3]]


def test_other_translations_are_listed_once_and_not_if_there_is_nothing_to_read(
    page: Browser, stub: Stub
) -> None:
    stub.rows = ["", ".", "A dog runs. ", "A hound runs."]
    translated(page, "Ein Hund läuft.")
    assert texts(page, "#others bdi") == ["A dog runs.", "A hound runs."]
    page.click("#others li:nth-child(2) button")
    assert value(page) == "A hound runs."
    height = "document.querySelector('{}').getBoundingClientRect().height"
    pane = height.format("main section:last-child")
    assert page.run(f"{height.format('#others')} < {pane}")


# Whether something is shown as usual, and can be used.
USABLE = """(e => e.checkVisibility({visibilityProperty: true}) && !e.closest('[inert]')
    && getComputedStyle(e).opacity === '1')(document.querySelector('%s'))"""


@pytest.mark.parametrize("added", [" Eine Katze schläft.", " 😀" * 600])
def test_what_belongs_to_the_old_text_is_not_taken_for_that_of_the_new(
    page: Browser, stub: Stub, added: str
) -> None:
    """While the new text waits for its translation, and while it is too long for one."""
    reopen(page, stub, suggestions=True)
    stub.detected = {"language": "de", "name": "German", "confidence": 90}
    translated(page, "Ein Hund läuft.")
    parts = ("#confidence", "#detected", "#suggest", "#others li", ".mirror:has(+ #target)")
    assert [part for part in parts if not page.run(USABLE % part)] == []
    stub.delay = 1.0
    focus(page, "#source")
    page.run("document.activeElement.setSelectionRange(99, 99)")
    page.type(added)
    assert [part for part in parts if page.run(USABLE % part)] == []
    assert page.run("document.querySelector('#others').inert")
    focus(page, "#target")
    page.press("Enter", modifiers=2)
    time.sleep(0.1)
    assert not texts(page, "#suggest")[0].startswith("Undo")
    if len(added) < 100:
        page.wait("!document.querySelector('.stale')")
        assert [part for part in parts if not page.run(USABLE % part)] == []


def test_confidence_and_doubts_are_those_of_the_pieces(page: Browser) -> None:
    translated(page, TEXT)
    # Two sentences of three words and an end; of the second word, the logarithm is -2.
    expected = math.exp(2 * (-0.1 - 2.0 - 0.1 - 0.1) / 8)
    assert texts(page, "output") == [f"{100 * expected:.0f} %"]
    assert page.run("document.querySelector('meter').value") == pytest.approx(expected)
    assert texts(page, ".unsure") == ["dog", "cat"]


def test_the_translation_is_copied(page: Browser) -> None:
    translated(page, TEXT)
    page.run("void (navigator.clipboard.writeText = async text => { window.copied = text })")
    page.click("#copy")
    page.wait("window.copied !== undefined")
    assert page.run("window.copied") == ENGLISH and texts(page, "#target-status") == ["Copied"]


def test_languages_are_swapped_with_their_texts(page: Browser) -> None:
    assert translated(page, "A dog runs. A cat sleeps.", 2).startswith("ال كلب")
    arabic = value(page)
    page.click("#swap")
    page.wait("document.querySelector('#target').value")
    assert value(page, "source") == arabic == value(page)  # the stub knows no Arabic
    assert texts(page, "h2 label") == ["Arabic", "English"]
    assert page.run("[...document.querySelectorAll('.text')].map(t => t.lang)") == ["ar", "en"]


def test_arabic_runs_from_right_to_left_and_chinese_does_not(page: Browser) -> None:
    for model, text, sign in ((2, "A dog runs.", -1), (3, "Ein Hund läuft.", 1)):
        page.run("(s => { s.value = '' })(document.querySelector('#source'))")
        translated(page, text, model)
        page.wait(f"document.querySelector('#model').selectedIndex === {model}")
        page.wait(
            "document.querySelectorAll('#target').length && "
            "!document.querySelector('[aria-busy=true]')"
        )
        lefts = page.run(
            "[...document.querySelectorAll('[data-side=target]')]"
            ".map(w => w.getBoundingClientRect().left)"
        )
        assert len(lefts) == 3 and lefts == sorted(lefts, key=lambda left: sign * left)


def test_hostile_text_is_text(page: Browser, stub: Stub) -> None:
    assert translated(page, f"{EVIL} Hund.") == f"{EVIL} Hund."
    at(page, 1)
    page.press("ArrowDown", modifiers=1)
    page.wait("!document.querySelector('#ways').hidden")
    assert texts(page, "#ways bdi")[0] == f"{EVIL} Hund."
    page.press("Escape")
    proposed(page, EVIL, 0, EVIL * 2)
    assert page.run("document.title") == "Translate"
    assert page.run("document.querySelectorAll('body script, body img').length") == 0


def test_a_busy_service_is_asked_again(page: Browser, stub: Stub) -> None:
    stub.refusals = [(429, {"Retry-After": "1"}), (503, {})]
    page.type(TEXT)
    page.wait("document.querySelector('#target-status').textContent")
    assert texts(page, "#target-status.wrong") == ["refused <b>429</b>. Trying again in 1 s"]
    page.wait("document.querySelector('#target').value")
    assert value(page) == ENGLISH and texts(page, "#target-status") == [""]
    assert len(page.complaints) == 2
    page.complaints.clear()


def test_a_text_in_another_language_is_translated_and_the_page_says_so(
    page: Browser, stub: Stub
) -> None:
    stub.detected = {"language": "fr", "confidence": 0.9, "name": "French"}
    assert translated(page, TEXT) == ENGLISH
    page.wait("document.querySelector('#source-status.wrong')")
    assert texts(page, "#source-status") == ["This seems to be French, not German"]
    stub.detected = {"language": "de", "confidence": 0.9, "name": "German"}
    page.type(" ")
    page.wait("!document.querySelector('#source-status.wrong')")
    assert texts(page, "#source-status") == [""]


def test_a_refusal_is_shown_and_the_text_kept(page: Browser, stub: Stub) -> None:
    translated(page, TEXT)
    stub.refusals = [(413, {})]
    page.type("x")
    page.wait("document.querySelector('#target-status.wrong')")
    time.sleep(0.5)
    assert texts(page, "#target-status") == ["refused <b>413</b>"]
    assert (value(page, "source"), value(page)) == (TEXT + "x", ENGLISH)
    page.complaints.clear()


def test_a_key_is_asked_for_where_one_is_needed(window: Browser, stub: Stub) -> None:
    stub.key = "open sesame"
    window.open(stub.address)
    window.wait("!document.querySelector('#key').hidden")
    for key in ("wrong", stub.key):
        window.run("document.querySelector('#key input').value = ''")
        window.run("document.querySelector('#key input').focus()")
        window.type(key)
        window.press("Enter")
        window.run("document.querySelector('#key').requestSubmit()")
        window.wait(
            "document.querySelector('#header-status').textContent"
            if key == "wrong"
            else "document.querySelector('#model').options.length"
        )
    assert window.run("document.querySelector('#key').hidden")
    assert translated(window, TEXT) == ENGLISH
    stub.key = None


def test_a_text_over_the_limit_is_counted_and_not_sent(page: Browser, stub: Stub) -> None:
    """Characters are code points, as the service counts them."""
    focus(page, "#source")
    page.type("😀" * 1001)
    assert texts(page, "#count") == ["1,001 / 1,000"]
    assert texts(page, "#source-status.wrong") == [
        "The text is too long: at most 1,000 characters are translated at once"
    ]
    time.sleep(0.4)
    assert not stub.asked
    page.press("Backspace")
    page.wait("document.querySelector('#target').value")
    assert texts(page, "#count") == ["1,000 / 1,000"] and texts(page, "#source-status") == [""]


def test_the_page_stays_within_the_window_and_its_panes_scroll(page: Browser, stub: Stub) -> None:
    stub.characters = 20_000
    reopen(page, stub)
    translated(page, "Ein Hund läuft.\n" * 1250)
    for text in ("", "x"):  # 20,000 characters, and one too many
        focus(page, "#source")
        if text:
            page.type(text)
        height = "document.documentElement.scrollHeight <= innerHeight"
        assert page.run(height)
        panes = page.run(
            "[...document.querySelectorAll('.text')].map(t => [t.scrollHeight, t.clientHeight])"
        )
        assert all(content > 20 * seen > 0 for content, seen in panes)
    end = page.run(
        "(t => t.scrollHeight - t.clientHeight - t.scrollTop)(document.querySelector('.text'))"
    )
    assert end <= 1  # where the cursor is


def test_the_words_linked_with_the_one_at_the_cursor_come_into_view(page: Browser) -> None:
    translated(page, "Ein Hund läuft.\n" * 60)
    for index in (0, 59):
        at(page, index * len("A dog runs.\n") + 3)
        page.settle()
        selectors = json.dumps([word("source", 1, index), ".text"])
        boxes = page.run(
            f"{selectors}.map(s => document.querySelector(s).getBoundingClientRect())"
            ".map(box => [box.top, box.bottom])"
        )
        (top, bottom), (box_top, box_bottom) = boxes
        assert box_top - 1 <= top and bottom <= box_bottom + 1  # boxes end between pixels


def test_a_text_is_cleared_and_brought_back(page: Browser) -> None:
    translated(page, TEXT)
    page.click("#clear")
    page.wait("!document.querySelector('#target').value")
    assert value(page, "source") == "" and page.run("document.activeElement.id") == "source"
    assert page.run("document.querySelector('#clear').hidden")
    page.run("document.execCommand('undo')")
    page.wait("document.querySelector('#target').value")
    assert (value(page, "source"), value(page)) == (TEXT, ENGLISH)


def choose_file(page: Browser, name: str, content: list[int]) -> None:
    page.run(
        "(i => { const t = new DataTransfer(); "
        f"t.items.add(new File([new Uint8Array({content})], {json.dumps(name)})); "
        "i.files = t.files; i.dispatchEvent(new Event('change')) })"
        "(document.querySelector('#file'))"
    )


def test_the_text_of_a_file_comes_into_the_pane(page: Browser, stub: Stub) -> None:
    choose_file(page, "dog.txt", list(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode()))
    page.wait("document.querySelector('#target').value")
    assert (value(page, "source"), value(page)) == (TEXT, ENGLISH)
    for name, content, message in (
        ("a.png", [137, 80, 255], "a.png is not a text file. Supported: text in UTF-8"),
        ("b.txt", [65, 0], "b.txt is not a text file. Supported: text in UTF-8"),
        (EVIL, [65] * 4001, f"{EVIL} is too long: at most 1,000 characters are translated at once"),
    ):
        choose_file(page, name, content)
        page.wait(f"document.querySelector('#source-status').textContent === {json.dumps(message)}")
        assert value(page, "source") == TEXT
    choose_file(page, "c.txt", [65] * 1001)  # may be cut
    page.wait("document.querySelector('#source').value.length === 1001")
    assert texts(page, "#count") == ["1,001 / 1,000"]


def test_a_file_is_translated_as_a_whole_if_the_service_does_that(
    page: Browser, stub: Stub
) -> None:
    reopen(page, stub, filesTranslation=True, supportedFilesFormat=[".docx", ".txt"])
    assert page.run("document.querySelector('#file').accept") == "text/*,.docx,.txt"
    assert texts(page, "#formats") == ["txt, docx"]
    stub.delay = 0.5
    page.run(
        "void (HTMLAnchorElement.prototype.click = function () "
        "{ window.saved = [this.download, this.href] })"
    )
    for name, length in (("dog.docx", 4), ("long.txt", 1001)):
        page.run("void delete window.saved")
        choose_file(page, name, [65] * length)
        page.wait("!document.querySelector('progress').hidden")
        page.wait("window.saved")
        first, last = name.split(".")
        saved, address = page.run("window.saved")
        assert saved == f"{first}_en.{last}" and address.startswith(f"blob:{stub.address}")
        assert stub.of("/translate_file")[-1] == {
            **{"file": (name, b"A" * length), "source": "de", "target": "en"}
        }
        assert texts(page, "#source-status") == [f"{saved} is translated, and in your downloads"]
        assert page.run("[...document.querySelectorAll('#source-status a')].map(a => a.href)") == [
            address
        ]
        assert page.run("document.querySelector('progress').hidden")
    assert f"{stub.address}download_file/1" in page.requests and value(page, "source") == ""
    page.requests = [url for url in page.requests if not url.startswith("blob:")]


def type_pair(page: Browser, source: str, target: str) -> None:
    """Type a pair of terms into the glossary, by keys alone."""
    page.run("document.querySelector('#glossary').open = true")
    focus(page, "#glossary li:last-child input")
    page.type(source)
    page.press("Tab")
    page.type(target)


def test_a_glossary_is_sent_with_the_text_and_the_completions(page: Browser, stub: Stub) -> None:
    translated(page, TEXT)
    assert "glossary" not in stub.of("/v1/translate")[-1]
    type_pair(page, "Hund", " hound ")
    type_pair(page, EVIL, "x")
    type_pair(page, "Katze", "")  # no pair yet
    pairs = [["Hund", "hound"], [EVIL, "x"]]
    deadline = time.monotonic() + browser.PATIENCE
    while stub.of("/v1/translate")[-1].get("glossary") != pairs:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert texts(page, "#glossary summary") == ["Glossary (2)"]
    page.wait("!document.querySelector('[aria-busy=true]')")
    proposed(page, "s", ENGLISH.index("cat"), "A s sleeps.")
    assert stub.of("/v1/translate")[-1]["glossary"] == pairs
    page.click("#glossary li:nth-child(2) button")
    assert page.run("document.activeElement.value") == "Katze"
    page.wait("!document.querySelector('#glossary li:nth-child(4)')")
    page.click("#swap")
    values = "[...document.querySelectorAll('#glossary input')].map(i => i.value)"
    assert page.run(values) == [" hound ", "Hund", "", "Katze", "", ""]
    assert page.run("document.cookie + localStorage.length + sessionStorage.length") == "00"


def test_what_the_glossary_asks_in_vain_is_said(page: Browser, stub: Stub) -> None:
    stub.unmet = ["hound"]
    translated(page, "Ein Hund läuft.")
    assert texts(page, "#target-status.wrong") == ["Not in the translation: “hound”"]


def test_a_sentence_is_accepted_or_corrected(page: Browser, stub: Stub) -> None:
    translated(page, TEXT)
    assert page.run("document.querySelector('#suggest').hidden")
    reopen(page, stub, suggestions=True)
    translated(page, TEXT)
    at(page, ENGLISH.index("cat"))
    assert texts(page, "#suggest") == ["Accept: A cat sleeps."]
    page.click("#suggest")
    page.wait("document.querySelector('#suggest').textContent.startsWith('Sent')")
    assert texts(page, "#target-status") == ["The service keeps this sentence and its translation"]
    proposed(page, "s", ENGLISH.index("cat"), "A s sleeps.")
    page.press("Tab")
    assert texts(page, "#suggest") == ["Send correction: A s sleeps."]
    for _ in range(2):  # the second has nothing new
        page.press("Enter", modifiers=2)
        page.wait("document.querySelector('#suggest').textContent === 'Sent: A s sleeps.'")
    pair = {"q": "Eine Katze schläft.", "source": "de", "target": "en"}
    assert stub.of("/suggest") == [{**pair, "s": "A cat sleeps."}, {**pair, "s": "A s sleeps."}]


def test_what_was_accepted_can_be_withdrawn_and_enter_does_not_accept(
    page: Browser, stub: Stub
) -> None:
    reopen(page, stub, suggestions=True)
    translated(page, "Ein Hund läuft.")
    focus(page, "#suggest")
    page.press("Enter")
    assert texts(page, "#suggest") == ["Accept: A dog runs."]
    for expected in ("Undo: A dog runs.", "Accept: A dog runs."):
        page.click("#suggest")
        assert texts(page, "#suggest") == [expected]
    time.sleep(5.5)
    assert stub.of("/suggest") == []


def test_what_was_accepted_is_sent_before_the_page_is_closed(page: Browser, stub: Stub) -> None:
    reopen(page, stub, suggestions=True)
    translated(page, "Ein Hund läuft.")
    page.click("#suggest")
    page.open(stub.address)
    deadline = time.monotonic() + browser.PATIENCE
    while not stub.of("/suggest"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_swap_stands_between_the_languages(page: Browser) -> None:
    """Each language is above its pane; panes are side by side, or one above the other."""
    box = "document.querySelector('{}').getBoundingClientRect().toJSON()"
    names = ["label[for=source]", "#swap", "label[for=target]"]
    one, swap, two = (page.run(box.format(name)) for name in names)
    side = "left" if one["left"] != two["left"] else "top"
    assert one[side] < swap[side] < two[side]
    for area, name in (("#source", one), ("#target", two)):
        assert name["bottom"] <= page.run(box.format(area))["top"]


def test_the_detected_language_is_shown(page: Browser, stub: Stub) -> None:
    for confidence, expected in ((0.2, "detected: German"), (0.0, "")):  # 0 = unknown
        stub.detected = {"language": "de", "confidence": confidence, "name": "German"}
        page.type(" Ein Hund.")
        page.wait(f"document.querySelector('#detected').textContent === {expected!r}")
        page.wait("!document.querySelector('[aria-busy=true]')")


def test_all_controls_are_reached_by_tab_and_show_it(page: Browser, stub: Stub) -> None:
    reopen(page, stub, suggestions=True)
    translated(page, TEXT)
    focus(page, "#model")
    names = []
    for _ in range(30):
        e = "document.activeElement"
        names.append(page.run(f"{e}.id || {e}.localName"))
        assert (
            page.run(f"{e}.closest('textarea, body') || getComputedStyle({e}).outlineStyle")
            != "none"
        )
        page.press("Tab")
    buttons = ["button"] * 5  # the sentence in other words
    expected = [
        *("model", "source", "open", "clear", "swap", "target", "copy", "suggest"),
        *buttons,
    ]
    assert names[: len(expected) + 2] == [*expected, "summary", "summary"]


NAMED = {"textbox", "button", "combobox", "listbox", "option", "meter", "heading", "region"}


def test_everything_has_a_name_for_screen_readers(page: Browser) -> None:
    translated(page, TEXT)
    page.click(word("target", 1))
    page.wait("!document.querySelector('#ways').hidden")
    page.call("Accessibility.enable")
    nodes = [n for n in page.call("Accessibility.getFullAXTree")["nodes"] if not n["ignored"]]
    roles = [node["role"]["value"] for node in nodes]
    assert {"textbox", "button", "combobox", "listbox", "meter", "status"} <= set(roles)
    unnamed = [
        n for n, r in zip(nodes, roles, strict=True) if r in NAMED and not n["name"]["value"]
    ]
    assert not unnamed
    page.call("Accessibility.disable")
