"""The clients of other projects: each of their methods works, or is refused in a sentence."""

import io
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.servers import ServerProcess
from helpers.tiny_runs import demo_lines

pytest.importorskip("uvicorn", reason="pip install -e '.[serve]'")
pytestmark = pytest.mark.serving

TEXTS = demo_lines("test", "de", 3)
# Methods that are refused, and the ones that are local or served; together all that there are.
REFUSED = {
    *("rephrase_text", "correct_text"),
    *("get_all_style_rules", "create_style_rule", "get_style_rule", "update_style_rule_name"),
    *("delete_style_rule", "update_style_rule_configured_rules"),
    *("create_style_rule_custom_instruction", "get_style_rule_custom_instruction"),
    *("update_style_rule_custom_instruction", "delete_style_rule_custom_instruction"),
    *("list_translation_memories", "get_translation_memory", "list_translation_memory_segments"),
    *("delete_translation_memory", "create_translation_memory_import"),
    *("create_translation_memory_export", "get_translation_memory_job"),
    *("wait_until_translation_memory_job_done", "import_translation_memory_from_filepath"),
    "export_translation_memory_to_filepath",
}
ELSEWHERE = {"upload_translation_memory_file", "download_translation_memory_export"}  # their URLs
LOCAL = {"close", "server_url", "set_app_info"}
SERVED = {
    *("translate_document", "translate_document_from_filepath", "translate_document_upload"),
    *("translate_document_get_status", "translate_document_wait_until_done"),
    "translate_document_download",
    *("translate_text", "translate_text_with_glossary"),
    *("get_source_languages", "get_target_languages", "get_glossary_languages", "get_usage"),
    *("create_glossary", "create_glossary_from_csv", "get_glossary", "list_glossaries"),
    *("get_glossary_entries", "delete_glossary"),
    *("create_multilingual_glossary", "create_multilingual_glossary_from_csv"),
    *("get_multilingual_glossary", "list_multilingual_glossaries"),
    *("get_multilingual_glossary_entries", "delete_multilingual_glossary"),
    *("update_multilingual_glossary_name", "update_multilingual_glossary_dictionary"),
    "update_multilingual_glossary_dictionary_from_csv",
    "replace_multilingual_glossary_dictionary",
    "replace_multilingual_glossary_dictionary_from_csv",
    "delete_multilingual_glossary_dictionary",
}


@pytest.fixture(scope="module")
def deepl() -> ModuleType:
    return pytest.importorskip("deepl", reason="pip install deepl")


@pytest.fixture(scope="module")
def server(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("kept")
    keys = folder / "keys"
    keys.write_text("first\nsecond\n")
    running = ServerProcess(trained, "--keys", keys, "--keep-in", folder / "records").ready()
    yield running
    assert running.end() == 0
    assert "rror" not in "".join(running.log)


@pytest.fixture
def client(server: ServerProcess, deepl: ModuleType) -> Any:
    return deepl.DeepLClient("first", server_url=f"http://127.0.0.1:{server.port}")


def translate_plainly(server: ServerProcess, text: str) -> Any:
    key = {"authorization": "Bearer first"}
    return server.ask("POST", "/v1/translate", {"text": text}, key)[1]["text"]


def test_every_method_of_deepls_client_is_known(deepl: ModuleType) -> None:
    methods = {name for name in dir(deepl.DeepLClient) if name[0] != "_"}
    assert methods == REFUSED | SERVED | LOCAL | ELSEWHERE


def test_deepls_client_translates_with_each_option(server: ServerProcess, client: Any) -> None:
    expected = [translate_plainly(server, text) for text in TEXTS]
    found = client.translate_text(TEXTS, target_lang="EN-US")
    assert [each.text for each in found] == expected
    assert [each.billed_characters for each in found] == list(map(len, TEXTS))
    assert found[0].detected_source_lang == "DE"
    for changed in (
        {"source_lang": "DE"},
        {"context": "Hunde"},
        {"formality": "prefer_more"},
        {"formality": "default"},
        {"preserve_formatting": True},
        {"split_sentences": "nonewlines"},
        {"model_type": "quality_optimized"},
        {"model_type": "latency_optimized"},
        {"tag_handling": "html", "tag_handling_version": "v2"},
        {"tag_handling": "xml", "outline_detection": False, "ignore_tags": "a,b"},
        {"tag_handling": "xml", "splitting_tags": ["p", "q"], "non_splitting_tags": ["r"]},
        {"extra_body_parameters": {"enable_beta_languages": True}},
    ):
        single = client.translate_text(TEXTS[0], target_lang="EN-GB", **changed)
        assert single.text == expected[0], changed
    assert client.get_usage().character.count > 0
    assert [each.code for each in client.get_source_languages()] == ["DE"]
    (language,) = client.get_target_languages()
    assert language.code == "EN" and language.supports_formality is False


def test_deepls_client_is_refused_options_that_nothing_here_does(
    client: Any, deepl: ModuleType
) -> None:
    for changed in (
        {"target_lang": "FR"},
        {"formality": "more"},
        {"style_rule": "x"},
        {"translation_memory": "x"},
        {"custom_instructions": ["Be brief."]},
        {"extra_body_parameters": {"nonsense": 1}},
    ):
        with pytest.raises(deepl.DeepLException, match="not supported. Supported: "):
            client.translate_text(TEXTS[0], **{"target_lang": "EN-GB", **changed})


def test_deepls_client_keeps_glossaries_of_two_languages(
    server: ServerProcess, client: Any, deepl: ModuleType
) -> None:
    (pair,) = client.get_glossary_languages()
    assert (pair.source_lang, pair.target_lang) == ("de", "en")
    entries = {"Mann": "gentleman", "grün": "emerald, deep"}
    glossary = client.create_glossary("mine", "DE", "EN-US", entries)
    assert glossary.ready and glossary.entry_count == 2 and glossary.name == "mine"
    assert client.get_glossary_entries(glossary) == entries
    assert client.get_glossary(glossary.glossary_id).creation_time == glossary.creation_time
    csv = 'Mann,gentleman\n"grün","emerald, deep",DE,EN\n'
    other = client.create_glossary_from_csv("csv", "DE", "EN", csv)
    assert client.get_glossary_entries(other) == entries
    assert [each.name for each in client.list_glossaries()] == ["mine", "csv"]

    text = "Ein Mann schläft."
    found = client.translate_text_with_glossary(text, glossary)
    assert "gentleman" in found.text
    terms = {"glossary_ids": [other, glossary.glossary_id], "source_lang": "DE"}
    assert client.translate_text(text, target_lang="EN-US", **terms).text == found.text

    stranger = deepl.DeepLClient("second", server_url=client.server_url)
    assert stranger.list_glossaries() == []
    for refuse in (stranger.get_glossary, stranger.get_glossary_entries, stranger.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException, match="not one of your glossaries"):
            refuse(glossary.glossary_id)
    with pytest.raises(deepl.DeepLException, match="not one of your glossaries"):
        stranger.translate_text(text, source_lang="DE", target_lang="EN-US", glossary=glossary)

    client.delete_glossary(glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(glossary.glossary_id)
    client.delete_glossary(other)
    assert client.list_glossaries() == []


def test_deepls_client_keeps_glossaries_of_several_pairs(client: Any, deepl: ModuleType) -> None:
    entries = deepl.api_data.MultilingualGlossaryDictionaryEntries("DE", "EN", {"Hund": "hound"})

    def known() -> dict[str, str]:
        (found,) = client.get_multilingual_glossary_entries(glossary, "DE", "EN").dictionaries
        return dict(line.split("\t") for line in found.entries.splitlines())

    glossary = client.create_multilingual_glossary("mine", [entries])
    assert client.get_multilingual_glossary(glossary.glossary_id).name == "mine"
    assert [each.name for each in client.list_multilingual_glossaries()] == ["mine"]
    assert client.update_multilingual_glossary_name(glossary, "ours").name == "ours"
    csv = io.StringIO("Katze,feline\nHund,pooch\n")
    client.update_multilingual_glossary_dictionary_from_csv(glossary, "DE", "EN", csv)
    assert known() == {"Hund": "pooch", "Katze": "feline"}
    client.update_multilingual_glossary_dictionary(glossary, entries)
    assert known() == {"Hund": "hound", "Katze": "feline"}
    client.replace_multilingual_glossary_dictionary(glossary, entries)
    assert known() == {"Hund": "hound"}
    new = client.replace_multilingual_glossary_dictionary_from_csv(glossary, "DE", "EN", "a,b\nc,d")
    assert new.entry_count == 2 and known() == {"a": "b", "c": "d"}
    client.delete_multilingual_glossary_dictionary(glossary, new)
    assert client.get_multilingual_glossary(glossary.glossary_id).dictionaries == []
    with pytest.raises(deepl.GlossaryNotFoundException, match="not for de-en"):
        known()
    client.delete_multilingual_glossary(glossary)
    other = client.create_multilingual_glossary_from_csv("csv", "DE", "EN", "a,b")
    client.delete_multilingual_glossary(other)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.delete_multilingual_glossary(glossary)
    with pytest.raises(deepl.DeepLException, match="Supported: de to en"):
        client.create_glossary("mine", "EN", "DE", {"a": "b"})


def test_what_deepls_client_is_refused_it_is_refused_in_a_sentence(
    client: Any, deepl: ModuleType, tmp_path: Path
) -> None:
    document = tmp_path / "text.txt"
    document.write_text(TEXTS[0])
    calls: dict[str, Callable[[Any], Any]] = {
        "rephrase_text": lambda call: call("A dog."),
        "correct_text": lambda call: call("A dog."),
        "create_style_rule": lambda call: call("a", "en"),
        "update_style_rule_name": lambda call: call("a", "b"),
        "update_style_rule_configured_rules": lambda call: call("a", {}),
        "create_style_rule_custom_instruction": lambda call: call("a", "b", "c"),
        "get_style_rule_custom_instruction": lambda call: call("a", "b"),
        "update_style_rule_custom_instruction": lambda call: call("a", "b", "c", "d"),
        "delete_style_rule_custom_instruction": lambda call: call("a", "b"),
        "import_translation_memory_from_filepath": lambda call: call(document),
        "export_translation_memory_to_filepath": lambda call: call("a", tmp_path / "c.tmx"),
        "create_translation_memory_import": lambda call: call("a", 1),
    }
    for name in ("get_all_style_rules", "list_translation_memories"):
        calls[name] = lambda call: call()
    for name in sorted(REFUSED):
        call = calls.get(name, lambda call: call("a"))
        with pytest.raises(deepl.DeepLException, match="not supported. Supported: /v1/translate"):
            call(getattr(client, name))


def test_deepls_client_translates_documents(client: Any, deepl: ModuleType, tmp_path: Path) -> None:
    source, target = tmp_path / "a.md", tmp_path / "b.md"
    source.write_text(f"# {TEXTS[0]}\n")
    client.translate_document_from_filepath(source, target, target_lang="EN-US")
    assert target.read_text().startswith("# ") and TEXTS[0] not in target.read_text()
    output = io.BytesIO()
    client.translate_document(TEXTS[0].encode(), output, target_lang="EN-US", filename="a.txt")
    assert output.getvalue().decode() == client.translate_text(TEXTS[0], target_lang="EN-US").text
    handle = client.translate_document_upload(TEXTS[0], target_lang="EN-US", filename="a.txt")
    assert client.translate_document_wait_until_done(handle).done
    client.translate_document_download(handle, io.BytesIO())
    for refuse in (client.translate_document_get_status, client.translate_document_download):
        with pytest.raises(deepl.DeepLException):
            refuse(handle)  # it is no longer kept
    with pytest.raises(deepl.DeepLException, match="cannot be read as .docx"):
        client.translate_document_upload(b"a", target_lang="EN-US", filename="a.docx")


def test_strangers_are_refused(server: ServerProcess, deepl: ModuleType) -> None:
    stranger = deepl.DeepLClient("third", server_url=f"http://127.0.0.1:{server.port}")
    for refuse in (stranger.get_usage, stranger.get_target_languages, stranger.list_glossaries):
        with pytest.raises(deepl.AuthorizationException):
            refuse()


def test_the_client_of_libretranslate_works(server: ServerProcess) -> None:
    module = pytest.importorskip("libretranslatepy", reason="pip install libretranslatepy")
    address = f"http://127.0.0.1:{server.port}/"
    client = module.LibreTranslateAPI(address, api_key="first")
    methods = {name for name in dir(module.LibreTranslateAPI) if name[0] not in "_D"}
    assert methods == {"translate", "detect", "languages"}
    assert client.translate(TEXTS[0], "de", "en") == translate_plainly(server, TEXTS[0])
    assert client.detect(TEXTS[0])[0]["language"] == "de"
    assert [each["code"] for each in client.languages()] == ["de"]
    with pytest.raises(urllib.error.HTTPError, match="400"):
        client.translate(TEXTS[0], "fr", "en")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        module.LibreTranslateAPI(address, api_key="third").translate(TEXTS[0], "de", "en")
