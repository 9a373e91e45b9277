"""`seq2seq shortlist`, and the commands that use what it writes."""

import json
import shutil
from pathlib import Path

import pytest
from helpers.commands import SENTENCES, Command, refused
from helpers.tiny_runs import corpus

from seq2seq.cli.models import choose_shortlist
from seq2seq.decoding.shortlist.file import NAME, read_shortlist
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.translation.translator import Translator


@pytest.fixture
def listed(
    seq2seq: Command, run: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A copy of the run with a shortlist, of links that are one after another."""
    folder, base = tmp_path / "run", corpus(tmp_path_factory.getbasetemp())
    folder.mkdir()
    shutil.copy(run / "best.ckpt", folder)
    texts = [
        (base / f"valid.{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en")
    ]
    sizes = [min(len(s.split()), len(t.split())) for s, t in zip(*texts, strict=True)]
    links = "".join(" ".join(f"{i}-{i}" for i in range(n)) + "\n" for n in sizes)
    (tmp_path / "links").write_text(links, encoding="utf-8")
    files = "--source", base / "valid.de", "--target", base / "valid.en"
    small = "--frequent", 3, "--per-piece", 2
    ended = seq2seq("shortlist", folder, *files, "--links", tmp_path / "links", *small)
    assert f"{folder / NAME}: " in ended.lines[0] and "for a sentence on average" in ended.lines[0]
    return folder


def test_a_run_with_a_shortlist_uses_it_and_says_so(seq2seq: Command, listed: Path) -> None:
    translator = Translator.load(listed)
    tokenizers = Tokenizers(translator.source, translator.target)
    lists = read_shortlist(listed, tokenizers)
    ended = seq2seq("translate", listed, "--json", *SENTENCES)
    assert ended.err.count(f"using {listed / NAME}") == 1
    results = [*translator.stream(SENTENCES, translator.engine(shortlist=listed))]
    for text, line, result in zip(SENTENCES, ended.lines, results, strict=True):
        entry, best = json.loads(line), result.translations[0]
        assert entry["shortlist"] is True and entry["text"] == best.text
        listed_ids = set(lists.tokens(translator.source.encode_batch([text])[0]).tolist())
        assert listed_ids.issuperset(best.ids)
    without = seq2seq("translate", listed, "--json", "--shortlist", "none", *SENTENCES)
    assert NAME not in without.err and "shortlist" not in json.loads(without.lines[0])
    assert without.lines != ended.lines


def test_the_share_of_pieces_that_are_listed_is_printed_and_too_few_are_a_warning(
    seq2seq: Command, listed: Path
) -> None:
    source, target, links = (listed.parent / name for name in ("few.de", "few.en", "links"))
    pairs = [("ein hund läuft .", "a dog runs ."), ("eine frau liest .", "a woman reads .")] * 3
    source.write_text("".join(f"{text}\n" for text, _ in pairs), encoding="utf-8")
    target.write_text("".join(f"{text}\n" for _, text in pairs), encoding="utf-8")
    links.write_text("0-0\n" * len(pairs))  # nothing else is on a list, unless it is frequent
    typed = ("shortlist", listed, "--source", source, "--target", target, "--links", links)
    translator = Translator.load(listed)
    shares = []
    for frequent in (1, 500):
        ended = seq2seq(*typed, "--frequent", frequent, "--per-piece", 1)
        lists = read_shortlist(listed, Tokenizers(translator.source, translator.target))
        written = [translator.target.encode_batch([text])[0] for _, text in pairs]
        allowed = [lists.tokens(translator.source.encode_batch([text])[0]) for text, _ in pairs]
        hits = [i in set(ids) for row, ids in zip(written, allowed, strict=True) for i in row]
        shares.append(sum(hits) / len(hits))
        assert f"with {shares[-1]:.1%} of the pieces of its translation" in ended.lines[-1]
        message = f"{1 - shares[-1]:.1%} of the pieces of these translations are on no list"
        assert (message in ended.err) == (shares[-1] < 0.95)
    assert shares[0] < 0.95 < shares[1]


def test_a_shortlist_of_other_pieces_is_refused(seq2seq: Command, listed: Path) -> None:
    (listed / NAME).write_bytes(b"{}\n")
    message = refused(seq2seq("translate", listed, *SENTENCES))
    assert "is not a shortlist of seq2seq" in message


def test_links_need_text(seq2seq: Command, run: Path) -> None:
    message = refused(seq2seq("shortlist", run, "--align"))
    assert "--align is for text: add --source FILE and --target FILE" in message


def test_a_shortlist_is_found_from_any_folder(
    listed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(listed.parent)  # an actor of Ray works in another one
    run = Path(listed.name)
    assert choose_shortlist(run, None) == choose_shortlist(run, run / NAME) == listed / NAME
    assert choose_shortlist(run, Path("none")) is None
