"""Forms, queries and parts; glossaries and suggestions; each hostile one has an answer."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_runs import demo_lines

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")

from helpers.services import KEYS, keyed_service, loaded_client
from starlette.testclient import TestClient

from seq2seq.serving.glossaries import MAX_ENTRIES, first_groups
from seq2seq.serving.routes import PATHS
from seq2seq.serving.service import Service
from seq2seq.serving.storage import GLOSSARIES, SUGGESTIONS, Storage
from seq2seq.text.documents.files.formats import readable_suffixes

TEXTS = demo_lines("test", "de", 4)
TEXT = "Ein Mann und ein Hund laufen."
PAIR = {"source_lang": "DE", "target_lang": "EN"}
BASIC = {"q": TEXT, "source": "de", "target": "en"}


@pytest.fixture(scope="module")
def service(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Service:
    return keyed_service(trained, tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def keyless(service: Service) -> Iterator[TestClient]:
    """A client of a server that keeps nothing and needs no key."""
    with loaded_client(replace(service, keys=None, storage=None)) as client:
        yield client


def test_arguments_may_be_in_json_a_form_parts_or_the_query(keyless: TestClient) -> None:
    expected = keyless.post("/translate", json=BASIC).json()
    in_parts = {name: (None, value) for name, value in BASIC.items()}
    query, rest = {"q": TEXT}, {name: BASIC[name] for name in ("source", "target")}
    for arguments in (
        {"data": BASIC},
        {"files": in_parts},
        {"params": BASIC},
        {"params": query, "data": rest},
        {"params": query, "files": {name: (None, value) for name, value in rest.items()}},
        {"params": query, "data": {**rest, "q": TEXTS[1]}},  # the query takes precedence
        {"params": {"q": TEXTS[1]}, "json": BASIC},  # and is not read beside JSON
        {"params": BASIC, "headers": {"content-type": "application/json"}},
    ):
        assert keyless.post("/translate", **arguments).json() == expected, arguments
    more = {**in_parts, "alternatives": (None, "1")}
    assert "alternatives" in keyless.post("/translate", files=more).json()
    for arguments in ({"params": query}, {"files": {"q": (None, TEXT)}}):
        assert keyless.post("/detect", **arguments).json()[0]["language"] == "de"
    assert keyless.get("/translate", params=BASIC).status_code == 405  # as LibreTranslate


def parts(count: int, value: bytes = b"a", more: bytes = b"") -> bytes:
    head = b'--x\r\nContent-Disposition: form-data; name="%d"' + more + b"\r\n\r\n"
    return b"".join(head % i + value + b"\r\n" for i in range(count)) + b"--x--\r\n"


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (parts(5000), "multipart/form-data; boundary=x", 400),
        (parts(1, b"\r\n--" * 100_000), "multipart/form-data; boundary=x", 400),
        (parts(1, b"a" * 2**21), "multipart/form-data; boundary=x", 413),
        (parts(1, b"a", b'; filename="../../a"'), "multipart/form-data; boundary=x", 400),
        (parts(1, b"\xff\xfe"), "multipart/form-data; boundary=x", 400),
        (parts(3)[:-40], "multipart/form-data; boundary=x", 400),
        (b"--x\r\n" + b"a: b\r\n" * 20_000, "multipart/form-data; boundary=x", 400),
        (
            b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--\r\n",
            "multipart/form-data",
            400,
        ),
        (parts(1), "multipart/form-data; boundary=" + "y" * 5000, 400),
        (b"", "multipart/form-data; boundary=x", 400),
    ],
)
@pytest.mark.parametrize("path", ["/translate", "/detect", "/suggest"])
def test_parts_that_are_none_are_refused(
    client: TestClient, path: str, body: bytes, kind: str, code: int
) -> None:
    answer = client.post(path, content=body, headers={"content-type": kind})
    assert answer.status_code == code and answer.json()["error"]


def test_flags_of_deepl_may_have_any_form(client: TestClient) -> None:
    entry = {"text": [TEXT], "target_lang": "EN-US"}
    for value in (True, 1, "1", "true", False, 0, "0", "false"):
        changed = {**entry, "show_billed_characters": value, "preserve_formatting": value}
        for arguments in ({"json": changed}, {"data": changed}):
            answer = client.post("/v2/translate", **arguments)
            assert answer.status_code == 200, (value, answer.text)
            is_true = value in (True, 1, "1", "true")
            assert ("billed_characters" in answer.json()["translations"][0]) is is_true
    for value in ("yes", 2, None, [True]):
        answer = client.post("/v2/translate", json={**entry, "show_billed_characters": value})
        assert answer.status_code == 400


def create(client: TestClient, entries: str, **changed: Any) -> Any:
    body = {"name": "mine", **PAIR, "entries": entries, "entries_format": "tsv", **changed}
    return client.post("/v2/glossaries", json=body)


def test_a_glossary_is_obeyed_sentence_by_sentence(client: TestClient) -> None:
    made = create(client, "Mann\tgentleman\nHund\thound\nKatze\tfeline")
    assert made.status_code == 201 and made.json()["entry_count"] == 3
    entry = {"text": ["Ein Mann läuft. Ein Hund läuft.", "Ein Hund\tEin Mann"], **PAIR}
    answer = client.post("/v2/translate", json={**entry, "glossary_id": made.json()["glossary_id"]})

    def require(sentence: str, word: str) -> str:
        wanted = {"text": sentence, "must": [word]}
        text: str = client.post("/v1/translate", json=wanted).json()["text"]
        return text

    man, dog = require("Ein Mann läuft.", "gentleman"), require("Ein Hund läuft.", "hound")
    assert "gentleman" in man
    texts = [each["text"] for each in answer.json()["translations"]]
    assert texts[0].split() == f"{man} {dog}".split()
    assert texts[1].split("\t") == [require("Ein Hund", "hound"), require("Ein Mann", "gentleman")]
    # A glossary of a request is one of the same kind.
    pairs = [["Mann", "gentleman"], ["Hund", "hound"], ["Hund", "pooch"]]
    own = client.post("/v1/translate", json={"text": entry["text"][0], "glossary": pairs[:2]})
    assert own.json()["text"] == answer.json()["translations"][0]["text"]
    either = client.post("/v1/translate", json={"text": "Ein Hund läuft.", "glossary": pairs})
    groups = {"text": "Ein Hund läuft.", "must": [["hound", "pooch"]]}
    assert either.json()["text"] == client.post("/v1/translate", json=groups).json()["text"]
    nowhere = client.post("/v1/translate", json={"text": TEXT, "glossary": [["Maus", "mouse"]]})
    assert (
        nowhere.json()["text"] == client.post("/v1/translate", json={"text": TEXT}).json()["text"]
    )


@pytest.mark.parametrize("kind", ["tsv", "csv"])
def test_byte_order_marks_belong_to_no_term(client: TestClient, kind: str) -> None:
    entries = {"Mann": "gentleman", "Hund": "old, tall hound"}
    line = '"{}","{}"' if kind == "csv" else "{}\t{}"
    lines = "\r\n".join("\ufeff" + line.format(*entry) for entry in entries.items())
    made = create(client, lines, entries_format=kind).json()["glossary_id"]
    dictionary = {**PAIR, "entries": lines, "entries_format": kind}
    body = {"name": "a", "dictionaries": [dictionary]}
    several = client.post("/v3/glossaries", json=body).json()["glossary_id"]
    tsv = "\n".join("\t".join(entry) for entry in entries.items())
    for each in (made, several):
        assert client.get(f"/v2/glossaries/{each}/entries").text == tsv
    pairs = [[f"\ufeff{term}", f"{word}\ufeff"] for term, word in entries.items()]
    body = {"text": "Ein Mann läuft.", "glossary": pairs}
    expected = {"text": "Ein Mann läuft.", "glossary": list(entries.items())}
    answers = [client.post("/v1/translate", json=each).json() for each in (body, expected)]
    assert answers[0] == answers[1] and "gentleman" in answers[0]["text"]


def test_a_glossary_of_marks_alone_is_none(client: TestClient) -> None:
    assert create(client, "\ufeff\tdog").status_code == 400
    for pair in (["\ufeff", "dog"], ["Hund", "\ufeff"]):
        answer = client.post("/v1/translate", json={"text": TEXT, "glossary": [pair]})
        assert answer.status_code in (200, 400)


@pytest.mark.parametrize(
    ("glossary", "code", "message"),
    [
        ([["a"]], 400, "has 1 of at least 2"),
        ([["a", "b", "c"]], 413, "at most 2"),
        ([["a", " "]], 400, "empty"),
        ([["a", "b" * 201]], 413, "at most 200"),
        ([["a", "b"]] * 1001, 413, "at most 1,000"),
        ({"a": "b"}, 400, "type array"),
        ([["a", 1]], 400, "type string"),
    ],
)
def test_what_is_no_glossary_of_a_request_is_refused(
    client: TestClient, glossary: Any, code: int, message: str
) -> None:
    answer = client.post("/v1/translate", json={"text": TEXT, "glossary": glossary})
    assert answer.status_code == code and message in answer.json()["error"]


def test_a_glossary_with_which_all_is_a_term_is_bounded(client: TestClient) -> None:
    words = [f"wort{i}" for i in range(1000)]
    glossary = [[word, word[::-1]] for word in words]
    entry = {"text": " ".join(words[:300]), "glossary": glossary, "deadline": 20}
    assert client.post("/v1/translate", json=entry).status_code in (200, 429, 504)
    groups = [(word,) for word in words] * 2
    assert first_groups(groups) == tuple(groups[:50])
    assert first_groups([("a" * 1500,), ("b" * 501,), ("c",)]) == (("a" * 1500,),)


@pytest.mark.parametrize(
    ("entries", "changed", "code", "message"),
    [
        ("", {}, 400, "empty"),
        ("\n\n", {}, 400, "empty"),
        ("Hund", {}, 400, "line 1 of entries"),
        ("a\tb\nHund\tdog\tcat", {}, 400, "line 2 of entries"),
        ("Hund\t ", {}, 400, "line 1 of entries"),
        ("Hund\t" + "a" * 201, {}, 400, "1 to 200 characters"),
        ("Hund\td\x00g", {}, 400, "line 1 of entries"),
        ("a\tb\na\tc", {}, 400, "line 2 of entries repeats"),
        ("a,b,c", {"entries_format": "csv"}, 400, "as csv"),
        ('a,"b', {"entries_format": "csv"}, 400, "line 1 of entries is not csv"),
        ('"a"b,c', {"entries_format": "csv"}, 400, "line 1 of entries is not csv"),
        ('a,b\n"Roter\nHund",c', {"entries_format": "csv"}, 400, "line 3 of entries"),
        ("Hund\td\u2028g", {}, 400, "line 1 of entries"),
        ('a,b\n"c, ""d""",e,DE,en-US', {"entries_format": "csv"}, 201, '"entry_count":2'),
        ("a,b,de,en\nKatze,gato,de,es", {"entries_format": "csv"}, 400, "line 2 of entries is for"),
        ("a," + "b" * 200_000, {"entries_format": "csv"}, 400, "csv"),
        ("a\tb", {"entries_format": "xls"}, 400, "tsv, csv"),
        ("a\tb", {"target_lang": "FR"}, 400, "Supported: de to en"),
        ("a\tb", {"source_lang": "auto"}, 400, "two languages"),
        ("a\tb", {"source_lang": ""}, 400, "not supported"),
        ("a\tb", {"name": " "}, 400, "empty"),
        ("a\tb", {"name": "x" * 1001}, 413, "at most 1,000"),
        ("\n".join(f"{i}\tb" for i in range(MAX_ENTRIES + 1)), {}, 413, "10,000"),
        ("\n".join(f"{i}\tb" for i in range(10**6)), {}, 413, "bytes"),
    ],
)
def test_what_is_no_glossary_is_refused_with_its_line(
    client: TestClient, entries: str, changed: dict[str, str], code: int, message: str
) -> None:
    answer = create(client, entries, **changed)
    assert answer.status_code == code and message in answer.text


def test_ids_of_others_and_of_nobody_are_unknown(client: TestClient) -> None:
    made = create(client, "a\tb").json()["glossary_id"]
    entry = {"text": [TEXT], **PAIR}
    ids = [made, "x", "..", "%2e%2e%2f%2e%2e", "..%2F..%2Fkeys", "%00", "a" * 3000, "glossaries"]
    for each in ids:
        for path in (f"/v2/glossaries/{each}", f"/v2/glossaries/{each}/entries"):
            assert client.get(path, headers=KEYS[1]).status_code == 404, each
        assert client.delete(f"/v3/glossaries/{each}", headers=KEYS[1]).status_code == 404
        body = {**entry, "glossary_id": each}
        answer = client.post("/v2/translate", json=body, headers=KEYS[1])
        assert (
            answer.status_code == 404 and "not one of your glossaries" in answer.json()["message"]
        )
    assert client.get(f"/v2/glossaries/{made}").status_code == 200
    without = {"text": [TEXT], "target_lang": "EN", "glossary_id": made}
    assert "source_lang" in client.post("/v2/translate", json=without).json()["message"]
    many = {**entry, "glossary_ids": [made] * 6}
    assert client.post("/v2/translate", json=many).status_code == 413


def test_suggestions_are_kept_with_the_languages_of_a_model(
    service: Service, client: TestClient
) -> None:
    before = len(list(service.storage.list_all(SUGGESTIONS)))
    entry = {"q": TEXT, "s": "A man and a dog walk.", "source": "de-DE", "target": "EN"}
    for arguments in (
        {"json": entry},
        {"data": entry},
        {"params": entry},
        {"files": {name: (None, value) for name, value in entry.items()}},
        {"json": {**entry, "source": "auto"}},
    ):
        answer = client.post("/suggest", **arguments)
        assert answer.status_code == 200 and answer.json() == {"success": True}
    kept = list(service.storage.list_all(SUGGESTIONS))
    assert len(kept) == before + 5
    facts = {"source": "de", "target": "en", "text": TEXT, "translation": entry["s"]}
    assert all(each.metadata == facts for each in kept)
    for changed, code in (
        ({"target": "fr"}, 400),
        ({"s": " "}, 400),
        ({"q": "a" * 5001}, 413),
        ({"s": 1}, 400),
    ):
        assert client.post("/suggest", json={**entry, **changed}).status_code == code
    settings = client.get("/frontend/settings").json()
    assert settings["suggestions"] and settings["filesTranslation"]
    assert settings["supportedFilesFormat"] == readable_suffixes()


def test_without_a_folder_nothing_is_kept_and_the_option_is_named(keyless: TestClient) -> None:
    suggestion = {"q": TEXT, "s": "A dog.", "source": "de", "target": "en"}
    multilingual = {"name": "a", "dictionaries": [{**PAIR, "entries": "a\tb"}]}
    for answer in (
        keyless.post("/suggest", json=suggestion),
        create(keyless, "a\tb"),
        keyless.post("/v3/glossaries", json=multilingual),
        keyless.get("/v2/glossaries/x"),
        keyless.delete("/v2/glossaries/x"),
        keyless.post("/v2/translate", json={"text": [TEXT], **PAIR, "glossary_id": "x"}),
        keyless.post("/translate_file", files={"file": b"a"}, data=BASIC),
        keyless.post("/v2/document", files={"file": b"a"}, data=PAIR),
    ):
        assert answer.status_code == 400 and "--keep-in FOLDER" in answer.json()["message"]
    assert keyless.get("/v2/glossaries").json() == {"glossaries": []}
    settings = keyless.get("/frontend/settings").json()
    assert not (settings["suggestions"] or settings["filesTranslation"])


def test_pages_of_others_change_nothing(client: TestClient) -> None:
    headers = {"origin": "https://example.org"}
    for method, paths in PATHS.items():
        for path in paths:
            answer = client.request(
                method, path.format(glossary_id="x", document_id="x", name="x"), headers=headers
            )
            assert (answer.status_code == 403) is (method != "GET"), (method, path)


def test_metrics_and_the_log_have_no_ids(client: TestClient, caplog: Any) -> None:
    caplog.set_level("INFO", logger="seq2seq.access")
    client.get("/v2/glossaries/secret/entries?a=secret")
    client.get("/v3/secret")
    # The client of the test may log its own requests.
    log = [record.getMessage() for record in caplog.records if record.name == "seq2seq.access"]
    assert "secret" not in "".join(log) + client.get("/metrics").text
    assert "GET /v2/glossaries/{glossary_id}/entries 404" in log[0]


def test_what_is_kept_says_nothing_of_keys_and_survives_a_restart(
    service: Service, client: TestClient
) -> None:
    made = create(client, "a\tb").json()["glossary_id"]
    folder: Path = service.storage.folder
    assert all("first" not in str(path) for path in folder.rglob("*"))
    assert b"first" not in b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())
    again = Storage(folder).read(GLOSSARIES, "first", made)
    assert json.loads(again.content) == {"de-en": {"a": "b"}}
