"""Compare attention mechanisms: train them on two files of text, or use the runs of a sweep.

    python scripts/compare_attention.py my.de my.en attn=mha,additive,gqa data.steps=1500
    python scripts/compare_attention.py runs/sweeps/zoo --test data/demo/test.de data/demo/test.en

Given two files, source and target, it trains on them. Arguments with a = are options as in
`train.py -m` (seed=1,2, model=rnn, position=rope); each combination is a run of train.py in
OUTPUT/runs, one after the other. Validation and test pairs are held out of the files unless --valid
and --test give them. If it is interrupted, the same command continues and trains only what is
missing.

Given folders, it compares the trained runs in them; a folder is a sweep or a single run.

Writes comparison.html, a page for any browser with the table, learning curves, attention maps of a
sentence, and memory against length; also comparison.md, .csv and .png. The table has one row per
mechanism: roles, BLEU and loss of the best validation (and BLEU of the test set, translated now
with the best weights), parameters, speeds, and bytes cached while decoding. Several seeds give a
mean and a deviation. The first row is the reference (--reference mha, or the best mechanism if
there is no such row); the others follow in the order of BLEU.

Speeds are measured now: all mechanisms take turns on the same batches in this process, and the best
round counts. The machine must be idle; --anyway measures on a busy machine, as always after
training; --no-speed leaves the speeds out. Bytes are the growth of the cache from 512 to 1,024
tokens, in all layers; `0 + 66,560` means a fixed size. Unfinished runs are listed and left out, and
differences between the runs other than attention are listed.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq.base.environment import limit_kernel_cache, limit_thread_spinning, quiet_interrupt

limit_thread_spinning()  # before torch, as in training
limit_kernel_cache()

import torch  # noqa: E402
from benchmarking import await_idle, conditions, foreign_load  # noqa: E402
from comparison.maps import Sentence  # noqa: E402
from comparison.memory import measure_memory  # noqa: E402
from comparison.page import find_sentence, write_comparison  # noqa: E402
from comparison.picture import draw  # noqa: E402
from comparison.rows import Mean, Row, markdown, spread_note, write_csv  # noqa: E402
from comparison.runs import Group, group_runs, in_order, incomparable, read_runs  # noqa: E402
from comparison.speed import Material, Speeds, parameters, speeds  # noqa: E402
from comparison.splits import Files, language_of, read_pairs, write_parts  # noqa: E402
from comparison.training import plan_jobs, train_all  # noqa: E402

from seq2seq.base.errors import ConfigError, DataError, Seq2SeqError, fail, format_count  # noqa: E402
from seq2seq.cli.options import positive  # noqa: E402
from seq2seq.data.corpus.mixture import find_components  # noqa: E402
from seq2seq.data.text.lines import check_parallel, read_lines  # noqa: E402
from seq2seq.metrics.registry import build_metrics, find_metrics  # noqa: E402
from seq2seq.metrics.scores import CorpusScore, corpus_scores, usual_resamples  # noqa: E402
from seq2seq.translation.translator import Translator  # noqa: E402

OVERRIDE = re.compile(r"[+~]{0,2}[\w@./]+=.*|~[\w@./]+", re.DOTALL)


def row_of(group: Group, test: Files | None, measured: Speeds | None) -> Row:
    run = group.runs[0]
    model = run.saved.build()
    past, source = measure_memory(model, run.saved.config["data"]["max_length"])
    scores = [score_test(run.folder, *test) for run in group.runs] if test else []
    drawn = scores[0].interval if len(scores) == 1 else None
    return Row(
        name=group.name,
        roles=run.roles,
        seeds=len(group.runs),
        bleu=Mean.of([run.bleu for run in group.runs]),
        loss=Mean.of([run.loss for run in group.runs]),
        test=Mean.of([score.value for score in scores]) if scores else None,
        interval=drawn.half_width if drawn else None,
        parameters=parameters(model),
        past=past,
        source=source,
        speeds=measured,
    )


def score_test(folder: Path, source: Path, reference: Path) -> CorpusScore:
    """BLEU of a run's best weights, with its configured search."""
    print(f"translating {source} with {folder.name}", file=sys.stderr, flush=True)
    translator = Translator.load(folder / "best.ckpt", "cpu")
    translations = translator.translate(list(read_lines(source)))
    language = translator.config["data"]["target"]
    metrics = build_metrics(find_metrics(("bleu",)), [list(read_lines(reference))], language)
    return corpus_scores(translations, metrics, usual_resamples(len(translations)))[0]


def measure(groups: Sequence[Group], options: argparse.Namespace) -> tuple[dict[str, Speeds], str]:
    """Measure the speeds of the first run of each mechanism. Returns: them, and the conditions."""
    material = Material.of(groups[0].runs[0].saved, options.batches, options.sentences)
    if not options.anyway:
        await_idle()
    with foreign_load() as load:
        result = speeds({g.name: g.runs[0].saved for g in groups}, material, options.rounds)
    said = (
        f"Speeds: {conditions()}; minimum of {options.rounds} rounds, {len(material.batches)} "
        f"batches, {len(material.source)} sentences; other processes used {load.cores:.2f} cores."
    )
    return result, said


def compare(folders: Sequence[Path], options: argparse.Namespace) -> None:
    """Read finished runs, measure them, and write the results."""
    if options.test:
        check_parallel(options.test[0], options.test[1], "scoring")
    runs, skipped = read_runs(folders)
    notes = [*options.notes, *skipped, *incomparable(runs)]
    print("\n".join(notes), file=sys.stderr, end="\n" if notes else "")
    sentence = attempt_sentence(options, runs[0].saved.config["data"])
    groups = in_order(group_runs(runs), options.reference)
    measured: dict[str, Speeds] = {}
    if not options.no_speed:
        measured, said = measure(groups, options)
        notes.append(said)
    rows = [row_of(group, options.test, measured.get(group.name)) for group in groups]
    folder = options.output
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(filter(None, [markdown(rows), spread_note(rows), *notes])) + "\n"
    (folder / "comparison.md").write_text(text, encoding="utf-8")
    write_csv(rows, folder / "comparison.csv")
    draw(rows, folder / "comparison.png")
    write_comparison(folder / "comparison.html", groups, rows, sentence, options.lead, notes)
    print(text)
    print(f"wrote {folder / 'comparison'}.html, .md, .csv and .png", file=sys.stderr)


def attempt_sentence(
    options: argparse.Namespace, data: Mapping[str, Any]
) -> Sentence | Seq2SeqError:
    """The sentence whose maps are drawn, from the test set or otherwise from the runs' validation
    set; or an error that explains why there is none.

    Raises: DataError if the number or text on the command line is not that of a sentence.
    """
    if options.test:
        return find_sentence(options.sentence, read_pairs(options.test), str(options.test[0]))
    try:
        sides = str(data["source"]), str(data["target"])
        text = find_components(data["valid"], *sides, "data.valid")[0].text
        pairs = list(text.pairs())
    except DataError as error:  # the files have moved since
        if options.sentence.isdecimal():
            return DataError(f"{error} Type a sentence instead: --sentence TEXT")
        return find_sentence(options.sentence, [], "")
    return find_sentence(options.sentence, pairs, str(text.files[0]))


def train_and_compare(text: Files, overrides: Sequence[str], options: argparse.Namespace) -> None:
    """Check all options and files, train the missing runs, and compare all runs."""
    typed = dict(option.partition("=")[::2] for option in overrides)
    languages = language_of(text, (typed.get("data.source"), typed.get("data.target")))
    given = {"valid": options.valid, "test": options.test}
    runs, data = options.output / "runs", options.output / "data"
    parts = write_parts(text, given, data, languages, anew=not runs.is_dir())
    options.test = parts.files["test"]
    find_sentence(options.sentence, read_pairs(options.test), str(options.test[0]))
    jobs = plan_jobs(overrides, parts, languages, runs)
    counts = ", ".join(f"{count:,} {name}" for name, count in parts.counts.items())
    options.lead = f"{text[0]} and {text[1]}, in pairs: {counts}. Options: {' '.join(overrides)}"
    print(f"{format_count(len(jobs), 'run')} on {options.lead}", file=sys.stderr, flush=True)
    for name, leaks in parts.leaks.items():
        print(leaks.describe(parts.counts[name], name), file=sys.stderr, flush=True)
    options.notes = train_all(jobs)
    if jobs[0].plan.run.dry_run:
        return
    trained = [job.folder for job in jobs if job.is_trained]
    if not trained:
        raise ConfigError("no run is finished, so there is nothing to compare")
    compare(trained, options)
    if options.notes:
        raise ConfigError("\n".join(options.notes))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    pair = ("SRC", "REF")
    add("inputs", nargs="+", help="SOURCE TARGET key=value ..., or folders of sweeps or runs")
    add("--valid", nargs=2, type=Path, metavar=pair, help="validation pairs (default: held out)")
    add("--test", nargs=2, type=Path, metavar=pair, help="test pairs (default: held out)")
    add("--sentence", default="1", metavar="N", help="line of the test set for maps, or a text")
    add("--reference", default="mha", help="row that ratios are relative to (%(default)s)")
    add("--no-speed", action="store_true", help="do not measure speeds")
    add("--batches", type=positive, default=4, help="training batches per round")
    add("--sentences", type=positive, default=50, help="sentences translated per round")
    add("--rounds", type=positive, default=5)
    add("--threads", type=positive, default=torch.get_num_threads(), help="threads to measure with")
    add("-o", "--output", type=Path, help="folder of results (comparison, or the first sweep)")
    add("--anyway", action="store_true", help="measure even on a busy machine")
    parser.set_defaults(notes=[], lead="Runs that were trained before.")
    return parser.parse_intermixed_args()


def dispatch(options: argparse.Namespace) -> None:
    """Train on two files with options of train.py, or compare the runs in folders.

    Raises: ConfigError if the arguments are neither.
    """
    paths = [Path(text) for text in options.inputs if is_path(text)]
    overrides = [text for text in options.inputs if not is_path(text)]
    if options.output is not None and options.output.is_file():
        raise ConfigError(f"-o {options.output} is a file: give the name of a folder")
    if overrides or any(path.is_file() for path in paths):
        if len(paths) != 2 or any(path.is_dir() for path in paths):
            raise ConfigError(
                f"to train, give two files of text and options, not {' '.join(options.inputs)}: "
                "compare_attention.py my.de my.en attn=mha,additive,gqa"
            )
        options.output = options.output or Path("comparison")
        options.anyway = True  # after hours of training, the user wants the page in any case
        train_and_compare((paths[0], paths[1]), overrides, options)
        return
    if options.valid:
        raise ConfigError(
            "--valid is only for training, and runs in folders are already trained: leave it out"
        )
    options.output = options.output or paths[0]
    compare(paths, options)


def is_path(text: str) -> bool:
    return Path(text).exists() or not OVERRIDE.fullmatch(text)


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    try:
        dispatch(options)
    except Seq2SeqError as error:
        sys.exit(fail(str(error)))


if __name__ == "__main__":
    with quiet_interrupt():
        main()
