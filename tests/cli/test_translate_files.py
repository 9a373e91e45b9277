"""`seq2seq translate-files`: every line of every file once, whatever is killed."""

import gzip
import json
import os
import re
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from helpers.commands import SENTENCES, Command, refused
from helpers.machines import can_isolate, run_on_two

from seq2seq.base import durable
from seq2seq.checkpoint.folder import find_checkpoint
from seq2seq.cli import shards as shards_module
from seq2seq.data.corpus.cache import sha256_of
from seq2seq.data.text.provenance import find_provenance

FAST = ("--beam-size", 1, "--max-length", 12)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder of 12, 9, 3 and no lines, in 3 + 3 + 1 + 0 shards of 4 lines."""
    folder = tmp_path / "in"
    (folder / "more" / ".hidden").mkdir(parents=True)
    (folder / "more" / ".hidden" / "x").write_text("hidden")
    (folder / "a.txt").write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    some = "\n".join(SENTENCES[8:0:-1]) + "\n\n"
    (folder / "more" / "b.gz").write_bytes(gzip.compress(some.encode()))
    (folder / "c.txt").write_bytes(b"Ja.\r\n\r\nEin Hund.")
    (folder / "d.txt").write_bytes(b"")
    return folder


def typed(run: Path, texts: Path, *more: object) -> tuple[object, ...]:
    return "translate-files", run, texts, texts.parent / "out", "--shard-lines", 4, *more


def joined(texts: Path) -> dict[str, bytes]:
    """What was written for each file, unpacked."""
    folder = texts.parent / "out"
    paths = [p for p in folder.rglob("*") if p.is_file() and ".shards" not in p.parts]
    contents = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}
    return {n: gzip.decompress(c) if n.endswith(".gz") else c for n, c in contents.items()}


def shards(texts: Path) -> list[Path]:
    return sorted((texts.parent / "out" / ".shards").rglob("*.gz/*.gz")) + sorted(
        (texts.parent / "out" / ".shards").rglob("*.txt/*.gz")
    )


def without_scores(lines: list[str]) -> list[tuple[object, ...]]:
    """What of JSON lines does not depend on rounding."""
    return [(each["line"], each["text"]) for each in map(json.loads, lines)]


@pytest.mark.parametrize(
    "options",
    [FAST, ("--nbest", 2, *FAST[2:]), ("--sample", "--seed", 3, *FAST[2:])],
    ids=["text", "nbest", "sampled"],
)
def test_files_in_a_folder_are_translated_like_single_files(
    seq2seq: Command, run: Path, texts: Path, options: tuple[object, ...]
) -> None:
    if "--sample" in options:  # a draw depends on the line, alone on how many had text before
        (texts / "c.txt").write_bytes(b"Ja.\nEin Hund.")
    ended = seq2seq(*typed(run, texts, *options))
    assert (ended.code, ended.out) == (0, b"")
    assert "7 shards translated" in ended.err and "4 files joined" in ended.err
    alone = {
        name: seq2seq("translate", run, "-i", texts / name, *options).out
        for name in ("a.txt", "more/b.gz", "c.txt", "d.txt")
    }
    assert joined(texts) == alone


def test_a_json_request_in_a_file_is_translated_like_a_single_one(
    seq2seq: Command, run: Path, texts: Path, tmp_path: Path
) -> None:
    lines = [{"text": text, "prefix": "A"} for text in SENTENCES[:6]]
    for path in texts.rglob("*.*"):
        if path.is_file():
            path.unlink()
    (texts / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\nnone\n{}\n")
    ended = seq2seq(*typed(run, texts, "--json-input", "--json", *FAST))
    alone = seq2seq("translate", run, "-i", texts / "a.jsonl", "--json-input", "--json", *FAST)
    ours = joined(texts)["a.jsonl"].decode().splitlines()
    assert ended.code == 1 and without_scores(ours) == without_scores(alone.lines)
    lines = [json.loads(line) for line in ours]
    assert [line["line"] for line in lines] == list(range(1, 9)), "counted in the file"
    assert f"warning: {texts / 'a.jsonl'}, line 7: not JSON" in ended.err
    assert f"warning: {texts / 'a.jsonl'}, line 8: not an object" in ended.err


def test_warnings_name_the_file_and_its_line(seq2seq: Command, run: Path, texts: Path) -> None:
    (texts / "c.txt").write_bytes(b"Ja.\n" * 5 + b"Ein H\xff.\n" + b"Hund " * 200 + b"\n")
    ended = seq2seq(*typed(run, texts, *FAST))
    assert f"warning: {texts / 'c.txt'}, line 6, byte 6: 0xff" in ended.err
    assert re.search(rf"warning: {texts / 'c.txt'}, line 7 is longer than", ended.err)
    cut = re.search(r"cut off at the length limit: .* of (.*)\. To allow", ended.err)
    assert cut and f"{texts / 'a.txt'}, line " in cut[1]


def test_machines_share_the_work_and_each_line_is_translated_once(
    seq2seq: Command, run: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = seq2seq(*typed(run, texts, *FAST)) and joined(texts)
    (texts.parent / "out").rename(texts.parent / "before")
    done = []
    for part in ("1/3", "3/3"):
        ended = seq2seq(*typed(run, texts, *FAST, "--shard", part))
        assert ended.code == 0 and not joined(texts)
        done.append(int(re.findall(r"in (\d+) shards translated", ended.err)[0]))
    words = refused(seq2seq(*typed(run, texts, "--merge")))
    assert words.startswith(f"2 shards missing or damaged: {texts / 'a.txt'}, line 5; ")
    for name, value in (("ID", "6"), ("MIN", "4"), ("STEP", "2"), ("COUNT", "3")):
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    ended = seq2seq(*typed(run, texts, *FAST))
    assert (done, "in 2 shards translated" in ended.err) == ([3, 2], True)
    assert seq2seq(*typed(run, texts, "--merge")).code == 0
    assert joined(texts) == whole
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "12")
    assert "without gaps: sbatch --array=1-3" in refused(seq2seq(*typed(run, texts, *FAST)))


def test_damaged_and_missing_shards_are_named_and_translated_again(
    seq2seq: Command, run: Path, texts: Path
) -> None:
    seq2seq(*typed(run, texts, *FAST))
    whole = joined(texts)
    packed = [path.read_bytes() for path in shards(texts)]
    for index, damaged in enumerate([None, b"", packed[2][:-3], gzip.compress(b"One line.\n")]):
        path = shards(texts)[index]
        path.unlink() if damaged is None else path.write_bytes(damaged)
        name = path.parent.relative_to(texts.parent / "out" / ".shards")
        words = refused(seq2seq(*typed(run, texts, "--merge")))
        assert words.startswith("1 shard missing or damaged: ")
        assert f"{texts / name}, line {int(path.name[:10])}." in words
        ended = seq2seq(*typed(run, texts, *FAST))
        assert "in 1 shard translated" in ended.err and joined(texts) == whole
        assert [path.read_bytes() for path in shards(texts)] == packed


def test_a_file_that_changed_is_translated_again_where_it_changed(
    seq2seq: Command, run: Path, texts: Path
) -> None:
    seq2seq(*typed(run, texts, *FAST))
    lines = (texts / "a.txt").read_text(encoding="utf-8").splitlines()
    (texts / "a.txt").write_text("\n".join([*lines[:5], "Ja.", *lines[6:]]) + "\n")
    (texts / "new.txt").write_text("Nein.\n")
    ended = seq2seq(*typed(run, texts, *FAST))
    assert "5 lines in 2 shards translated" in ended.err
    alone = seq2seq("translate", run, "-i", texts / "a.txt", *FAST)
    assert joined(texts)["a.txt"] == alone.out


BEGIN = """
import sys
quick = os.fsync
os.fsync = lambda file: (time.sleep(0.05), quick(file))[1]
from seq2seq.cli.main import main
machine, *options = sys.argv[1:]
sys.argv = ["seq2seq", *options, "--shard", "1/2" if machine == "a" else "2/2"]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
def test_two_machines_can_begin_a_folder_at_once(
    seq2seq: Command, run: Path, texts: Path, isolated: bool
) -> None:
    if isolated and not can_isolate():
        pytest.skip("needs unshare, and the right to use it")
    alone = seq2seq("translate", run, "-i", texts / "a.txt", *FAST).out
    run_on_two(BEGIN, *typed(run, texts, *FAST), isolated=isolated)
    assert seq2seq(*typed(run, texts, "--merge")).code == 0
    assert joined(texts)["a.txt"] == alone
    assert not list(texts.parent.rglob("*.unfinished"))


def test_the_first_machine_decides_the_options_for_a_folder(
    seq2seq: Command, run: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine creates the note between the look at it and its creation."""
    create = shards_module.create_text
    written: list[dict[str, object]] = []

    def create_later(path: Path, text: str) -> None:
        create(path, json.dumps({**json.loads(text), **others}))
        written.append(json.loads(path.read_text()))
        create(path, text)

    others: dict[str, object] = {"max_length": 13, "shard_lines": 5}
    monkeypatch.setattr(shards_module, "create_text", create_later)
    words = refused(seq2seq(*typed(run, texts, *FAST)))
    assert "begun with other options (" in words
    assert "--max-length" in words and "--shard-lines" in words
    (note,) = (texts.parent / "out" / ".shards").iterdir()
    assert [json.loads(note.read_text())] == written, "it is never replaced"
    shutil.rmtree(texts.parent / "out")
    others = {}
    assert seq2seq(*typed(run, texts, *FAST)).code == 0, "the same options go on"
    note.write_text('{"half":')
    for more in ((), ("--merge",)):
        words = refused(seq2seq(*typed(run, texts, *more)))
        assert f"{note} is damaged" in words and "delete" in words


def test_options_recorded_by_an_earlier_version_are_read(
    seq2seq: Command, run: Path, texts: Path
) -> None:
    seq2seq(*typed(run, texts, *FAST))
    (note,) = (path for path in (texts.parent / "out" / ".shards").iterdir() if path.is_file())
    note.rename(note.with_name("options.json"))
    assert "begun with other options" in refused(seq2seq(*typed(run, texts, "--beam-size", 2)))
    assert "in 0 shards translated" in seq2seq(*typed(run, texts, *FAST)).err


def test_an_option_with_value_zero_is_recorded(seq2seq: Command, run: Path, texts: Path) -> None:
    beam = ("--beam-size", 2, *FAST[2:])
    assert seq2seq(*typed(run, texts, *beam, "--length-penalty", 0)).code == 0
    words = refused(seq2seq(*typed(run, texts, *beam)))
    assert "begun with other options (--length-penalty)" in words


def test_shards_of_another_model_are_not_joined(
    seq2seq: Command, run: Path, texts: Path, tmp_path: Path
) -> None:
    assert seq2seq(*typed(run, texts, *FAST)).code == 0
    other = tmp_path / "other.ckpt"
    other.write_bytes(find_checkpoint(run).read_bytes() + bytes(1))
    words = refused(seq2seq(*typed(other, texts, "--merge")))
    assert "begun with other options (the model)" in words
    assert seq2seq(*typed(run, texts, "--merge")).code == 0


def test_an_empty_file_is_compressed_to_a_valid_file(
    seq2seq: Command, run: Path, texts: Path
) -> None:
    (texts / "e.gz").write_bytes(gzip.compress(b""))
    assert seq2seq(*typed(run, texts, *FAST)).code == 0
    written = (texts.parent / "out" / "e.gz").read_bytes()
    assert written and gzip.decompress(written) == b""


def test_any_name_of_an_input_works(seq2seq: Command, run: Path, texts: Path) -> None:
    names = ("options.json/sha256", "sha256.json/options", "a.txt.unfinished", "more/options")
    for name in names:
        (texts / name).parent.mkdir(exist_ok=True)
        (texts / name).write_text("Ja.\nNein.\n")
    for _ in range(2):
        assert seq2seq(*typed(run, texts, *FAST)).code == 0
        assert {joined(texts)[name].count(b"\n") for name in names} == {2}


def test_joined_files_without_a_source_are_named(seq2seq: Command, run: Path, texts: Path) -> None:
    assert "without a source" not in seq2seq(*typed(run, texts, *FAST)).err
    before = joined(texts)
    (texts / "a.txt").rename(texts / "new.txt")
    (texts / "more" / "b.gz").unlink()
    out = texts.parent / "out"
    named = f"2 files without a source in {texts}: {out / 'a.txt'}, {out / 'more' / 'b.gz'}. Delete"
    for more in (FAST, ("--merge",)):
        ended = seq2seq(*typed(run, texts, *more))
        assert ended.code == 0 and f"warning: {named}" in ended.err
    assert joined(texts) == {**before, "new.txt": before["a.txt"]}, "nothing is deleted"


def test_lines_of_a_shard_are_bounded_in_bytes(
    seq2seq: Command, run: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (texts / "c.txt").write_bytes("ä\n".encode() * 30 + b"\xff" * 2**20 + b"\n")
    sampled = "--sample", "--seed", 3, *FAST[2:]
    seq2seq(*typed(run, texts, *sampled))
    whole = joined(texts)
    shutil.rmtree(texts.parent / "out")
    monkeypatch.setattr(shards_module, "BYTES", 5)
    ended = seq2seq(*typed(run, texts, "--shard-lines", 100, *sampled))
    assert joined(texts) == whole
    files = shards_module.InputFiles(texts, texts.parent / "out", 100)
    lines = [block for file in files.files for _, block in files.shards(file)]
    sizes = [[len((line or "").encode()) for line in block] for block in lines]
    assert all(sum(block[:-1]) < 5 for block in sizes)
    assert f"in {len(lines)} shards translated" in ended.err


class KilledReplace:
    """`os.replace` in a process that dies at its second shard."""

    def __init__(self, before: bool):
        self.replace, self.before, self.done = os.replace, before, 0

    def __call__(self, source: Path, target: Path) -> None:
        self.done += re.fullmatch(r"\d{10}\..*", target.name) is not None
        if self.done == 2 and self.before:
            os.kill(os.getpid(), signal.SIGKILL)
        self.replace(source, target)
        if self.done == 2:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_command_killed_at_any_write_resumes_without_losing_a_line(
    seq2seq: Command, run: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {
        name: seq2seq("translate", run, "-i", texts / name, *FAST).out
        for name in ("a.txt", "more/b.gz", "c.txt", "d.txt")
    }
    kills = 0
    while True:
        child = os.fork()
        if child == 0:  # dies at its second shard, before or after it has its name
            torch.set_num_threads(1)  # its parent's other threads are not there
            monkeypatch.setattr(durable.os, "replace", KilledReplace(before=kills % 2 == 0))
            os._exit(seq2seq(*typed(run, texts, *FAST, "--quiet")).code)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break
        kills += 1
        assert os.WTERMSIG(status) == signal.SIGKILL and kills < 9
    assert kills == 4 and os.waitstatus_to_exitcode(status) == 0
    assert seq2seq(*typed(run, texts, "--merge")).code == 0
    assert joined(texts) == alone
    left = list((texts.parent / "out").rglob("*.unfinished"))
    assert len(left) == 2 and all(path.name.startswith(".") for path in left), "hidden, for a day"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("IN", "IN/out"), "should not contain each other"),
        (("IN", "IN/.."), "should not contain each other"),
        (("IN/none", "OUT"), "there is no such folder"),
        (("IN/a.txt", "OUT"), "is a file: give its folder"),
        (("IN/more/.hidden/..", "USED"), "holds something else"),
        (("EMPTY", "OUT"), "holds no files"),
    ],
)
def test_impossible_options_of_translate_files_are_refused(
    seq2seq: Command, run: Path, texts: Path, options: tuple[str, ...], words: str
) -> None:
    (texts.parent / "USED").mkdir()
    (texts.parent / "USED" / "thesis.txt").write_text("precious")
    (texts.parent / "EMPTY").mkdir()
    places = {"IN": str(texts), "OUT": str(texts.parent / "out")}
    places |= {name: str(texts.parent / name) for name in ("USED", "EMPTY")}
    given = [re.sub("IN|OUT|USED|EMPTY", lambda m: places[m[0]], option) for option in options]
    assert words in refused(seq2seq("translate-files", run, *given))


def test_other_options_and_other_files_than_text_are_refused(
    seq2seq: Command, run: Path, texts: Path
) -> None:
    seq2seq(*typed(run, texts, *FAST))
    words = refused(seq2seq(*typed(run, texts, "--beam-size", 2)))
    assert "begun with other options (" in words
    assert "--beam-size" in words and "--max-length" in words
    (texts / "z.png").write_bytes(b"\x89PNG\0\0\0\0\0\0\0\0\0\0\0")
    assert "z.png is not UTF-8 text" in refused(seq2seq(*typed(run, texts, *FAST)))
    for part in ("0/2", "3/2", "1"):
        assert "should be like 1/8" in refused(seq2seq(*typed(run, texts, "--shard", part)))


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
def test_a_missing_cluster_is_reported_with_advice(
    seq2seq: Command, run: Path, texts: Path
) -> None:
    assert "pip install ray" in refused(seq2seq(*typed(run, texts, "--ray", "auto")))
    both = typed(run, texts, "--ray", "auto", "--workers", 2)
    assert "leave --workers out" in refused(seq2seq(*both))


def test_the_beam_nearest_to_the_reference_is_taken(
    seq2seq: Command, run: Path, texts: Path
) -> None:
    """References that are the last of the beams are found again."""
    beams = ("--beam-size", 3, "--max-length", 12)
    assert seq2seq(*typed(run, texts, "--nbest", 3, *beams)).code == 0
    last = {}
    for name, content in joined(texts).items():
        rows = [line.split(b"\t") for line in content.splitlines()]
        lines = sorted({int(row[0]) for row in rows})
        last[name] = [[row for row in rows if int(row[0]) == n][-1][-1] for n in lines]
    shutil.rmtree(texts.parent / "out")
    folder = texts.parent / "references"
    for name, lines in last.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        count = len((texts / name).read_bytes().splitlines()) if name != "more/b.gz" else 9
        text = b"".join(line + b"\n" for line in [*lines, *[b""] * (count - len(lines))])
        (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    some = "a.txt"
    assert seq2seq(*typed(run, texts, "--nearest", folder, *beams)).code == 0
    assert joined(texts)[some].splitlines() == last[some]
    assert seq2seq(*typed(run, texts, "--merge")).code == 0  # it is known which references
    (folder / some).write_bytes(b"Yes.\n" * 12)
    ended = seq2seq(*typed(run, texts, "--nearest", folder, *beams))
    assert "3 shards translated" in ended.err  # those whose references have changed


def test_nearest_translations_need_references_and_beams(
    seq2seq: Command, run: Path, texts: Path
) -> None:
    shutil.copytree(texts, texts.parent / "references")
    nearest = ("--nearest", texts.parent / "references")
    assert "add --beam-size 8" in refused(seq2seq(*typed(run, texts, *nearest, "--beam-size", 1)))
    assert "leave one out" in refused(seq2seq(*typed(run, texts, *nearest, "--mbr", 2)))
    (texts.parent / "references" / "c.txt").write_text("Yes.\n")
    assert "choosing by shifted pairs" in refused(seq2seq(*typed(run, texts, *nearest)))
    (texts.parent / "references" / "c.txt").unlink()
    assert "does not exist" in refused(seq2seq(*typed(run, texts, *nearest)))


def test_the_ledger_has_the_warnings_of_a_command_that_was_killed(
    seq2seq: Command, run: Path, texts: Path
) -> None:
    (texts / "c.txt").write_bytes(b"Ja.\n" * 5 + b"Ein H\xff.\n" + b"Hund " * 200 + b"\n")
    whole = seq2seq(*typed(run, texts, *FAST))
    ledger = texts.parent / "out.json"
    listed = json.loads(ledger.read_text())["warnings"]
    assert whole.code == 0 and listed["count"] == len(listed["first"])
    # Warnings about truncated lines are printed as one.
    printed = set(re.findall(r"^warning: (.*)$", whole.err, re.M))
    single = [each for each in listed["first"] if "length limit" not in each]
    assert sorted(single) == sorted(each for each in printed if "length limit" not in each)
    assert len(single) == 2 and len(listed["first"]) > 2
    # A command that was killed after its other shards.
    ledger.unlink()
    shards(texts)[0].unlink()
    again = seq2seq(*typed(run, texts, *FAST))
    assert "1 shard translated" in again.err and again.code == 0
    assert json.loads(ledger.read_text())["warnings"] == listed


def test_the_ledger_of_translations_names_their_model(
    seq2seq: Command, run: Path, texts: Path
) -> None:
    assert seq2seq(*typed(run, texts, *FAST)).code == 0
    for name in ("a.txt", "more/b.gz"):
        file = texts.parent / "out" / name
        origin = find_provenance(file, sha256_of(file))
        assert origin == {
            "ledger": str(texts.parent / "out.json"),
            "command": "translate",
            "models": [str(run)],
        }
    ledger = json.loads((texts.parent / "out.json").read_text())
    assert ledger["options"]["path"] == [sha256_of(find_checkpoint(run))]
    file.write_bytes(b"changed")
    assert find_provenance(file, sha256_of(file)) is None
