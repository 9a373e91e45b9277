import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.builders import CONF
from helpers.train_options import values_of

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.data import prepare as prepare_module
from seq2seq.data.options import DataOptions
from seq2seq.data.prepare import WHERE_TO_GET, Prepared, find_parts, prepare

BPE = {
    "name": "bpe",
    "vocab_size": 300,
    "joint": True,
    "normalize": None,
    "max_token_length": 16,
}
Options = Callable[..., DataOptions]


@pytest.fixture
def options(parallel: Callable[..., tuple[Path, Path]], tmp_path: Path) -> Options:
    """A function that returns the options of a small corpus, with changes."""
    parallel("train")
    parallel("valid", ["der hund lacht"], ["the dog laughs"])
    parallel("test", ["die katze sieht"], ["the cat sees"])

    def make(**changes: Any) -> DataOptions:
        parts = {part: str(tmp_path / part) for part in ("train", "valid", "test")}
        fields = {"name": "files", "source": "de", "target": "en", "cache": str(tmp_path / "cache")}
        return DataOptions(**{**fields, **parts, **changes})

    return make


def contents(prepared: Prepared) -> list[Any]:
    corpora = prepared.train, prepared.valid
    ids = [[c.source(i).tolist() + c.target(i).tolist() for i in range(len(c))] for c in corpora]
    return [*ids, [tokenizer.to_json() for tokenizer in prepared.tokenizers]]


def test_text_becomes_corpora_and_tokenizers(options: Options) -> None:
    train, valid, tokenizers, report, *_ = prepare(options(), BPE)
    assert (len(train), len(valid)) == (4, 1)
    assert tokenizers.source is tokenizers.target
    assert tokenizers.source.decode_batch([valid.source(0).tolist()]) == ["der hund lacht"]
    assert tokenizers.target.decode_batch([valid.target(0).tolist()]) == ["the dog laughs"]
    assert report == (
        "train: 4 pairs read, 4 kept",
        "valid: 1 pair read, 1 kept",
        "test: 1 pair read, 1 kept",
        f"tokenizer: {tokenizers.source.size} pieces for both languages",
    )


def test_two_languages_may_have_a_tokenizer_each(options: Options) -> None:
    prepared = prepare(options(), {**BPE, "joint": False})
    source, target = prepared.tokenizers
    assert len(source.encode_batch(["katze"])[0]) < len(target.encode_batch(["katze"])[0])
    assert len(target.encode_batch(["cat"])[0]) < len(source.encode_batch(["cat"])[0])
    assert "source and" in prepared.report[-1]


def test_files_may_be_named_in_full(options: Options, tmp_path: Path) -> None:
    named = options(train=[str(tmp_path / "train.de"), str(tmp_path / "train.en")], test=None)
    assert contents(prepare(named, BPE)) == contents(prepare(options(), BPE))


@pytest.mark.parametrize("joint", [True, False])
def test_the_second_time_everything_comes_from_the_cache(
    joint: bool, options: Options, tmp_path: Path
) -> None:
    first = prepare(options(), {**BPE, "joint": joint})
    files = [path for path in (tmp_path / "cache").rglob("*") if path.suffix != ".lock"]
    times = {path: path.stat().st_mtime_ns for path in files}
    second = prepare(options(), {**BPE, "joint": joint})
    assert contents(second) == contents(first)
    assert {path: path.stat().st_mtime_ns for path in files} == times


def test_a_changed_byte_of_the_training_text_is_noticed(options: Options, tmp_path: Path) -> None:
    before = contents(prepare(options(), BPE))
    path = tmp_path / "train.de"
    path.write_bytes(path.read_bytes().replace(b"hund", b"hand"))
    after = prepare(options(), BPE)
    assert contents(after) != before
    first = after.tokenizers.source.decode_batch([after.train.source(0).tolist()])
    assert first == [path.read_text("utf-8").splitlines()[0]]


def test_other_options_make_another_tokenizer(options: Options) -> None:
    sizes = [
        prepare(options(), {**BPE, "vocab_size": size}).tokenizers.source.size
        for size in (260, 270, 260)
    ]
    assert sizes == [260, 270, 260]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", None])
def test_a_damaged_tokenizer_in_the_cache_is_learnt_again(
    damage: bytes | None, options: Options, tmp_path: Path
) -> None:
    before = contents(prepare(options(), BPE))
    [file] = (tmp_path / "cache").glob("tokenizer-*/joint.json")
    file.unlink()
    if damage is not None:
        file.write_bytes(damage)
    assert contents(prepare(options(), BPE)) == before


def test_nothing_is_printed(options: Options, capfd: pytest.CaptureFixture[str]) -> None:
    prepare(options(), BPE)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_two_processes_at_once_prepare_the_same(options: Options, tmp_path: Path) -> None:
    program = """if True:
        import json, sys
        from seq2seq.data.options import DataOptions
        from seq2seq.data.prepare import prepare

        data, tokenizer = json.load(sys.stdin)
        train, valid, tokenizers, *_ = prepare(DataOptions(**data), tokenizer)
        rows = [train.source(i).tolist() for i in range(len(train))]
        print(json.dumps([rows, tokenizers.source.to_json()]))
    """
    question = json.dumps([vars(options()), BPE])
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for _ in range(2)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write(question)
        process.stdin.close()
    answers = []
    for process in running:
        assert process.stdout is not None
        answers.append(json.loads(process.stdout.read()))
        process.stdout.close()
        assert process.wait(timeout=60) == 0
    here = prepare(options(), BPE)
    rows = [here.train.source(i).tolist() for i in range(len(here.train))]
    assert answers == [[rows, here.tokenizers.source.to_json()]] * 2


@pytest.mark.parametrize("part", ["train", "valid", "test"])
@pytest.mark.parametrize("fault", ["missing", "shorter", "broken", "empty"])
def test_every_file_is_checked_before_anything_is_computed(
    part: str, fault: str, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("something is computed")

    monkeypatch.setattr(prepare_module, "learn_tokenizers", refuse)
    file = tmp_path / f"{part}.en"
    content = file.read_bytes()
    words = {
        "missing": f"data.{part}=.*found neither",
        "shorter": f"{part}.de has .* line",
        "broken": f"{part}.en, line 1, byte 1: 0xff",
        "empty": f"{part}.en is empty",
    }
    file.unlink()
    if fault != "missing":
        file.write_bytes(
            {"shorter": content + b"x\n", "broken": b"\xff" + content, "empty": b""}[fault]
        )
    with pytest.raises(DataError, match=words[fault]):
        prepare(options(), BPE)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("demo", "seq2seq demo --corpus$"),
        ("multi30k", r"python\S* scripts/prepare_multi30k.py --languages de en$"),
        ("multi30k_tok", "prepare_multi30k.py --languages de en --tok$"),
        ("scan_jump", r"python\S* scripts/make_scan.py --split jump$"),
        ("files", r"\.$"),
    ],
)
def test_a_missing_corpus_says_where_to_get_it(name: str, words: str, options: Options) -> None:
    with pytest.raises(DataError, match=f"data.train=data/{name}/none.*{words}"):
        prepare(options(name=name, train=f"data/{name}/none"), BPE)


@pytest.mark.parametrize("name", ["copy", "reverse", "scan", "scan_jump", "scan_length"])
def test_the_data_of_a_recipe_is_made_by_the_command_that_is_named(
    name: str, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is typed as it is printed, in another folder than the script's."""
    monkeypatch.chdir(tmp_path)
    recipe = values_of(f"experiment={name}")["data"]
    data = options(
        **{key: recipe[key] for key in ("name", "source", "target", "train", "valid", "test")}
    )
    with pytest.raises(DataError, match="To make it: ") as caught:
        find_parts(data)
    command = str(caught.value).partition("To make it: ")[2]
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert find_parts(data)


def test_the_scripts_that_make_data_are_in_the_wheel() -> None:
    named = {*re.findall(r"scripts/\w+\.py", " ".join(WHERE_TO_GET.values()))}
    project = tomllib.loads((CONF.parent / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert named
    assert {name: included.get(name) for name in named} == {n: f"seq2seq/{n}" for n in named}


def test_a_broken_file_is_not_called_a_missing_corpus(options: Options, tmp_path: Path) -> None:
    (tmp_path / "train.de").write_bytes(b"\xff\n" * 4)
    with pytest.raises(DataError, match="not UTF-8") as caught:
        prepare(options(name="multi30k"), BPE)
    assert "prepare_multi30k" not in str(caught.value)


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [
        ({**BPE, "name": "bp"}, "unknown tokenizer 'bp'; did you mean 'bpe'"),
        ({"vocab_size": 300}, "tokenizer.name is missing. Known: bpe"),
        ({**BPE, "vocab": 3}, "unknown option tokenizer.vocab"),
        ({**BPE, "vocab_size": "many"}, "tokenizer.vocab_size='many' should be a whole number"),
        ({**BPE, "vocab_size": 259}, "tokenizer.vocab_size=259 is too small"),
    ],
)
def test_an_option_of_the_tokenizer_is_refused_before_any_file_is_read(
    tokenizer: dict[str, Any], words: str, options: Options
) -> None:
    with pytest.raises(ConfigError, match=words):
        prepare(options(train="no/such/file"), tokenizer)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_length": 1}, "data.max_length=1 leaves no room"),
        ({"max_tokens": 255}, "data.max_tokens=255 is less than data.max_length=256"),
        ({"source": ""}, "data.source='' should be"),
        ({"target": ".en"}, "data.target='.en' should be .* without the dot"),
        ({"valid": ["a", "b", "c"]}, r"data.valid lists 3 files"),
    ],
)
def test_an_option_of_the_data_out_of_range_is_refused(
    changes: dict[str, Any], words: str, options: Options
) -> None:
    with pytest.raises(ConfigError, match=words):
        prepare(options(**changes), BPE)


@pytest.mark.parametrize("train", ["my/train", "my/train.tsv", "my/train.jsonl.gz"])
def test_one_column_as_source_and_target_is_refused(train: str, options: Options) -> None:
    for spec in (train, {"news": {"path": train}}):
        with pytest.raises(ConfigError, match=r"source de and target de .*own trans"):
            prepare(options(target="de", train=spec), BPE)


def test_two_files_may_be_of_one_language(options: Options, tmp_path: Path) -> None:
    train = [str(tmp_path / "train.de"), str(tmp_path / "train.en")]
    prepared = prepare(options(target="de", train=train, valid=train, test=None), BPE)
    assert len(prepared.train) == 4


def test_the_longest_sentence_allowed_fits_the_smallest_batch_allowed(options: Options) -> None:
    smallest = options(max_length=2, max_tokens=2)
    assert (smallest.max_length, smallest.max_tokens) == (2, 2)


def test_a_tokenizer_is_learnt_from_a_sample_of_very_many_pairs(
    options: Options, parallel: Callable[..., tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ["ein hund", "zzz zzz", "zzz", "die katze", "zzz", "zzz zzz"]
    parallel("train", source, [line.replace("z", "y") for line in source])
    every = prepare(options(), {**BPE, "vocab_size": 290})
    monkeypatch.setattr(prepare_module, "MAX_PAIRS", 2)
    some = prepare(options(), {**BPE, "vocab_size": 290})
    assert "learnt" not in every.report[-1] + str(every.ledger["tokenizer"])
    assert some.report[-1].endswith("learnt from one of every 3 pairs")
    assert some.ledger["tokenizer"]["learnt_from_every"] == 3
    assert not {"zz", "yy"} & {*some.tokenizers.source.symbols()}
    assert {"zz", "yy"} <= {*every.tokenizers.source.symbols()}
    assert len(some.train) == len(every.train) == 6
