"""`seq2seq evaluate` beside the command `sacrebleu` on the same files; files of translations."""

import hashlib
import json
from pathlib import Path

import pytest
from helpers.commands import Command, refused
from helpers.sacrebleu_command import REFERENCES, damaged, sacrebleu, sacrebleu_paired, write
from helpers.tiny_runs import demo_lines

METRICS = ("bleu", "chrf", "ter")
# What sacreBLEU calls the scores.
THEIRS = {"BLEU": "BLEU", "chrF": "chrF2", "TER": "TER"}


class Files:
    """A test set and the outputs of three systems."""

    def __init__(self, folder: Path, references: list[str] = REFERENCES):
        self.source = write(folder / "test.de", demo_lines("test", "de", len(references)))
        self.reference = write(folder / "test.en", references)
        self.systems = [
            write(folder / f"{name}.en", damaged(references, rate, seed))
            for name, rate, seed in (("worse", 0.3, 1), ("better", 0.1, 2), ("like", 0.3, 3))
        ]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_scores_of_a_file_equal_those_of_the_sacrebleu_command(
    seq2seq: Command, files: Files
) -> None:
    path = files.systems[0]
    expected = sacrebleu(files.reference, "-i", path, "-m", *METRICS)
    theirs = {each["name"]: each for each in expected}
    ended = seq2seq("evaluate", path, files.source, files.reference)
    assert ended.lines[:3] == [f"{n} {theirs[t]['score']:.1f}" for n, t in THEIRS.items()]
    assert ended.lines[3:6] == [theirs[t]["signature"] for t in THEIRS.values()]
    assert (ended.code, ended.err) == (0, "")


def test_intervals_equal_those_of_the_sacrebleu_command(seq2seq: Command, files: Files) -> None:
    path = files.systems[0]
    expected = sacrebleu(files.reference, "-i", path, "-m", *METRICS, "--confidence")
    theirs = {each["name"]: each for each in expected}
    (line,) = seq2seq("evaluate", path, files.source, files.reference, "--json").lines
    result = json.loads(line)
    for name, their in ((name, theirs[t]) for name, t in THEIRS.items()):
        interval = result[name]["interval"]
        assert interval["mean"] == pytest.approx(their["confidence_mean"], abs=1e-9)
        assert interval["half_width"] == pytest.approx(their["confidence_var"], abs=1e-9)
        assert interval["signature"] == their["signature"]
        assert "bs:1000|seed:12345" in their["signature"]
    lines = seq2seq("evaluate", path, files.source, files.reference).lines
    shown = [
        f"{n} {theirs[t]['confidence_mean']:.1f} ± {theirs[t]['confidence_var']:.1f}"
        for n, t in THEIRS.items()
    ]
    assert lines[6:] == [f"95% of 1,000 resamples: {', '.join(shown)}"]
    few = seq2seq("evaluate", path, files.source, files.reference, "--resamples", 0).lines
    assert few == lines[:6]


@pytest.mark.parametrize(
    ("test", "option"),
    [("bootstrap", "bs"), pytest.param("randomization", "ar", marks=pytest.mark.slow)],
)
def test_p_values_equal_those_of_the_sacrebleu_command(
    seq2seq: Command, files: Files, test: str, option: str
) -> None:
    # Approximate randomisation of chrF takes long: the other two suffice.
    names = METRICS if option == "bs" else ("bleu", "ter")
    asked = files.reference, "-i", *files.systems, "-m", *names, f"--paired-{option}"
    expected = sacrebleu_paired(*asked)
    typed = "evaluate", *files.systems, files.source, files.reference, "--paired", test
    (line,) = seq2seq(*typed, "--metrics", ",".join(names), "--json").lines
    paired = json.loads(line)["paired"]
    assert paired["baseline"] == str(files.systems[0]) and paired["test"] == test
    assert len(paired["scores"]) == len(names)
    for name, of in paired["scores"].items():
        for index, each in enumerate(of["systems"]):
            interval, p = each["interval"], each["p_value"]
            ours = [each["score"]]
            ours += [interval["mean"], interval["half_width"]] if interval else []
            ours += [] if p is None else [round(p, 4)]
            assert ours == pytest.approx(expected.systems[index][THEIRS[name]], abs=1e-9)
        assert [each["p_value"] is None for each in of["systems"]] == [True, False, False]
        assert of["signature"] == expected.signatures[THEIRS[name]]
        assert f"|{option}:{of['trials']}|seed:12345|" in of["signature"]
    better = paired["scores"]["BLEU"]["systems"][1]
    assert better["p_value"] < 0.05


def test_a_table_shows_the_p_values(seq2seq: Command, files: Files) -> None:
    typed = "evaluate", *files.systems, files.source, files.reference, "--metrics", "bleu"
    (line,) = seq2seq(*typed, "--paired", "bootstrap", "--json").lines
    systems = json.loads(line)["paired"]["scores"]["BLEU"]["systems"]
    head, *rows = seq2seq(*typed, "--paired", "bootstrap").lines
    assert head.split() == ["BLEU"]
    for row, path, system in zip(rows, files.systems, systems, strict=False):
        shown = f"{system['score']:.1f} ± {system['interval']['half_width']:.1f}"
        assert row.startswith(str(path)) and shown in row
        p = system["p_value"]
        assert row.endswith(f" (p {p:.4f})") if p is not None else "(p" not in row
    assert f"p: against {files.systems[0]}, paired bootstrap, 1,000 trials" in "\n".join(rows)


def test_tokenized_references_are_scored_as_they_stand_as_well(
    seq2seq: Command, tmp_path: Path
) -> None:
    tokenized = [line.lower().replace(".", " .").replace(",", " ,") for line in REFERENCES]
    files = Files(tmp_path, tokenized)
    path = files.systems[0]
    expected = sacrebleu(files.reference, "-i", path, "--tokenize", "none")
    ended = seq2seq("evaluate", path, files.source, files.reference)
    assert [line.split()[0] for line in ended.lines[:4]] == [
        "BLEU",
        "chrF",
        "TER",
        "BLEU-tokenized",
    ]
    assert ended.lines[3] == f"BLEU-tokenized {expected['score']:.1f}"
    assert ended.lines[7] == expected["signature"] and "tok:none" in ended.lines[7]
    assert "references look tokenized" in ended.err
    only = seq2seq("evaluate", path, files.source, files.reference, "--metrics", "bleu")
    assert [line.split()[0] for line in only.lines[:1]] == ["BLEU"] and len(only.lines) == 3


def test_scores_with_several_references_equal_those_of_the_sacrebleu_command(
    seq2seq: Command, files: Files, tmp_path: Path
) -> None:
    second = damaged(REFERENCES, 0.05, 9)
    other = write(tmp_path / "other.en", second)
    columns = [f"{a}\t{b}" for a, b in zip(REFERENCES, second, strict=True)]
    table = write(tmp_path / "both.tsv", columns)
    path = files.systems[0]
    expected = sacrebleu(files.reference, other, "-i", path, "-m", *METRICS)
    theirs = {each["name"]: each for each in expected}
    (line,) = seq2seq("evaluate", path, files.source, table, "--json").lines
    result = json.loads(line)
    assert result["references"] == 2
    for name, their in THEIRS.items():
        assert result[name]["score"] == pytest.approx(theirs[their]["score"], abs=1e-9)
        assert result[name]["signature"] == theirs[their]["signature"]


MISTAKES = [
    (("{0}", "{src}"), "three or more are needed: seq2seq evaluate PATH [PATH ...] SRC REF"),
    (("{0}", "{0}", "{src}", "{ref}"), "is given twice"),
    (("{0}", "{src}", "{folder}"), "should be REF, not a folder or a checkpoint"),
    (("nowhere", "{src}", "{ref}"), "there is no nowhere: give a checkpoint, the folder of a run"),
    (("{0}", "{src}", "{ref}", "--paired", "bootstrap"), "--paired compares systems, and there is"),
    (("{0}", "{1}", "{src}", "{ref}", "-o", "x"), "is for one PATH, and there are 2: leave it out"),
    (("{0}", "{src}", "{ref}", "--metrics", "blue"), "there is no metric 'blue'. Known, as in"),
    (("{0}", "{src}", "{ref}", "--metrics", "bleu,bleu"), "a metric is given twice"),
    (("{0}", "{src}", "{ref}", "-o", "out.en.gz"), "output is not compressed: -o out.en"),
    (("{0}", "{src}", "{ref}", "--beam-size", "9"), "--beam-size is for models, but no PATH"),
    (("{0}", "{src}", "{ref}", "--coverage", "0"), "--coverage is for models, but no PATH is one"),
    (("{0}", "{1}", "{src}", "{ref}", "--stats"), "--stats is for models, but no PATH is one"),
    (("{0}", "{src}", "{ref}", "--device", "cuda"), "--device is for models, but no PATH is one"),
]


@pytest.mark.parametrize(
    ("typed", "answer"), MISTAKES, ids=[" ".join(typed) for typed, _ in MISTAKES]
)
def test_the_message_for_a_mistake_says_what_to_type(
    seq2seq: Command, files: Files, tmp_path: Path, typed: tuple[str, ...], answer: str
) -> None:
    names = {"src": files.source, "ref": files.reference, "folder": tmp_path}
    words = [word.format(*files.systems, **names) for word in typed]
    assert answer in refused(seq2seq("evaluate", *words))


SHAPES = [
    (b"one line\n", "{path} has 1 line(s), {src} 60."),
    (b"", "{path} is empty"),
    (b"\xff\xfe\n" * 60, "is not UTF-8 text"),
]


@pytest.mark.parametrize(("content", "answer"), SHAPES)
def test_a_file_of_translations_that_does_not_match_is_refused(
    seq2seq: Command, files: Files, content: bytes, answer: str
) -> None:
    path = files.systems[1]
    path.write_bytes(content)
    typed = "evaluate", files.systems[0], path, files.source, files.reference
    assert answer.format(path=path, src=files.source) in refused(seq2seq(*typed))


def test_equal_scores_are_shown_as_no_difference(seq2seq: Command, files: Files) -> None:
    twin = files.systems[1]
    twin.write_bytes(files.systems[0].read_bytes())
    typed = "evaluate", files.systems[0], twin, files.source, files.reference
    lines = seq2seq(*typed, "--paired", "bootstrap").lines
    assert lines[2].count("(no difference)") == 3


def test_spelling_to_sound_is_scored_by_words_and_symbols(seq2seq: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "words", ["c a t", "t o m a t o", "a b"])
    references = ["K AE1 T", "T AH0 M EY1 T OW2\tT AH0 M AA1 T OW2", "AH0 B"]
    table = write(tmp_path / "phones.tsv", references)
    output = write(tmp_path / "out", ["K AE1 T", "T AH0 M AA1 T OW2", "B AH0 B B"])
    typed = "evaluate", output, source, table, "--metrics", "exact,ser", "--resamples", 0
    # Two of three words are right; two symbols are too many for 3 + 6 + 2.
    assert seq2seq(*typed).lines[:2] == ["exact 66.7", f"SER {100 * 2 / 11:.1f}"]
    assert seq2seq(*typed).lines[2].startswith("nrefs:var|unit:line|case:mixed|")
    assert seq2seq(*typed).err == ""


def test_a_line_of_a_table_without_a_reference_is_named(
    seq2seq: Command, files: Files, tmp_path: Path
) -> None:
    table = write(tmp_path / "refs.tsv", [*REFERENCES[:5], "\t", *REFERENCES[6:]])
    message = refused(seq2seq("evaluate", files.systems[0], files.source, table))
    assert f"{table}, line 6: there is no reference" in message


def test_scores_by_length_are_shown(seq2seq: Command, files: Files) -> None:
    typed = "evaluate", files.systems[0], files.source, files.reference
    (line,) = seq2seq(*typed, "--json").lines
    lengths = json.loads(line)["lengths"]
    assert (lengths["score"], lengths["unit"]) == ("BLEU", "words")
    buckets = lengths["buckets"]
    assert sum(bucket["sentences"] for bucket in buckets) == len(REFERENCES)
    lines = seq2seq(*typed, "--lengths").lines[7:]
    assert len(lines) == 1 + len(buckets)
    assert lines[0] == "BLEU by words of the source"
    assert lines[1].split()[2:] == [str(buckets[0]["sentences"]), "sentences"]


def test_the_sha256_is_of_the_file_of_translations(seq2seq: Command, files: Files) -> None:
    path = files.systems[0]
    (line,) = seq2seq("evaluate", path, files.source, files.reference, "--json").lines
    result = json.loads(line)
    assert result["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (result["path"], result["kind"], result["sentences"]) == (str(path), "translations", 60)


def test_translations_are_not_written_over_what_was_read(seq2seq: Command, files: Files) -> None:
    before = files.reference.read_bytes()
    typed = "evaluate", files.systems[0], files.source, files.reference
    message = refused(seq2seq(*typed, "-o", files.reference))
    assert f"-o {files.reference} would overwrite" in message
    assert files.reference.read_bytes() == before


def test_a_column_that_is_the_source_is_no_reference(seq2seq: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "letters", ["c a t", "a"])
    table = write(tmp_path / "refs.tsv", ["cat\tK AE1 T", "a\tAH0\tEY1"])
    message = refused(seq2seq("evaluate", source, source, table))
    assert f"the first column of {table} is the source itself" in message


def test_a_very_large_test_set_gets_no_resamples_by_default(
    seq2seq: Command, tmp_path: Path
) -> None:
    many = write(tmp_path / "many", ["a b"] * 10_001)
    typed = "evaluate", many, many, many, "--metrics", "exact"
    (line,) = seq2seq(*typed, "--json").lines
    assert json.loads(line)["exact"]["interval"] is None
    assert seq2seq(*typed, "--resamples", 2).lines[2].startswith("95% of 2 resamples")
