"""Texts with tags through the service: sentences are whole, and every tag is there once."""

import html
import random
import re

import pytest
from helpers.tiny_runs import demo_lines

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")

from starlette.testclient import TestClient

TAG = re.compile(r"</?[a-z][^<>]*>")
TEXTS = demo_lines("test", "de", 8)


def with_tags(text: str, draw: random.Random) -> str:
    """A text with two pairs of tags around some of its words, one of them with attributes."""
    words = html.escape(text).split()
    first, second = sorted(draw.sample(range(len(words)), 2))
    words[first] = f'<a href="x?a=1&amp;b=2">{words[first]}</a>'
    words[second] = f"<b>{words[second]}</b>"
    return " ".join(words)


@pytest.mark.parametrize("kind", ["html", "xml", "libretranslate"])
def test_tags_change_no_word_and_are_there_once(client: TestClient, kind: str) -> None:
    draw = random.Random(1)
    tagged = [with_tags(text, draw) for text in TEXTS]
    if kind == "libretranslate":
        pair = {"source": "de", "target": "en"}
        plain = client.post("/translate", json={"q": TEXTS, **pair}).json()["translatedText"]
        answer = client.post("/translate", json={"q": tagged, "format": "html", **pair}).json()
        found = answer["translatedText"]
    else:
        entry = {"target_lang": "EN", "source_lang": "DE", "split_sentences": "0"}
        answers = [
            client.post("/v2/translate", json={"text": texts, **entry, **more}).json()
            for texts, more in ((TEXTS, {}), (tagged, {"tag_handling": kind}))
        ]
        plain, found = ([each["text"] for each in a["translations"]] for a in answers)
    for text, whole, result in zip(tagged, plain, found, strict=True):
        assert sorted(TAG.findall(result)) == sorted(TAG.findall(text))
        assert html.unescape(TAG.sub("", result)).split() == whole.split()


def test_alternatives_have_their_tags_too(client: TestClient) -> None:
    entry = {"q": with_tags(TEXTS[0], random.Random(2)), "source": "de", "target": "en"}
    answer = client.post("/translate", json={**entry, "format": "html", "alternatives": 2}).json()
    assert len(answer["alternatives"]) == 2
    for text in answer["alternatives"]:
        assert sorted(TAG.findall(text)) == sorted(TAG.findall(entry["q"]))


def test_options_of_xml_say_where_sentences_end_and_what_is_kept(client: TestClient) -> None:
    text = "<d><p>Der <x>Hund. Er</x> da</p><q>Der Hund</q></d>"

    def translate(**options: object) -> str:
        entry = {"text": [text], "target_lang": "EN", "tag_handling": "xml", **options}
        answer = client.post("/v2/translate", json=entry)
        assert answer.status_code == 200, answer.text
        result: str = answer.json()["translations"][0]["text"]
        assert sorted(TAG.findall(result)) == sorted(TAG.findall(text))
        return result

    assert "<q>Der Hund</q>" in translate(ignore_tags="q, z")
    assert "<x>Hund. Er</x>" in translate(ignore_tags=["x"], non_splitting_tags="x")
    translate(outline_detection=False, splitting_tags=["p", "q"])


@pytest.mark.parametrize("text", ["a <b>c", "a & b", '<!DOCTYPE d [<!ENTITY a "b">]><d>&a;</d>'])
def test_what_is_no_xml_is_refused(client: TestClient, text: str) -> None:
    entry = {"text": [text], "target_lang": "EN", "tag_handling": "xml"}
    answer = client.post("/v2/translate", json=entry)
    assert answer.status_code == 400 and "not well-formed XML" in answer.json()["error"]
