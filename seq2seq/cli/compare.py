"""Compare attention mechanisms: train them on two files of text, or use runs trained before.

    seq2seq compare my.de my.en attn=mha,additive,gqa data.steps=1500
    seq2seq compare my.de my.en attn=mha,additive --roles encoder,cross
    seq2seq compare my.de my.en attn=mha,linear --learning-rates 5e-4,1e-3,2e-3
    seq2seq compare runs/sweeps/zoo --test data/demo/test.de data/demo/test.en

Given two files, source and target, it trains on them. Arguments with a = are options of training
(model=rnn, position=rope); several values, as in seed=1,2, give a run for each combination. Seeds
are 1,2,3 unless others are typed. Validation and test pairs are held out of the files unless
--valid and --test give them. If it is interrupted, the same command continues where it was.

Given folders, it compares the trained runs in them; a folder is a sweep or a single run.

The result begins with a sentence for each mechanism: whether it differs from the first row, by how
much, and how sure that is. It is printed, and written with tables, learning curves, attention maps
and memory to comparison.html; also to comparison.md and .csv.

Speeds are measured at the end: all mechanisms take turns on the same batches in this process, and
the best round counts. The machine must be idle; --anyway measures on a busy machine, as always
after training; --no-speed leaves the speeds out.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from seq2seq.base.durable import write_text
from seq2seq.base.environment import limit_kernel_cache
from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.files import InputPath, check_apart, inputs_of
from seq2seq.cli.options import Options, argument, check_absent, flag, value
from seq2seq.comparison.splits import Files, language_of, write_parts

HELP = "compare attention mechanisms on your text"
EXAMPLE = "seq2seq compare my.de my.en attn=mha,additive,gqa"
OVERRIDE = re.compile(r"[+~]{0,2}[\w@./]+=.*|~[\w@./]+", re.DOTALL)
INPUTS = "SOURCE TARGET key=value ..., or folders of sweeps or runs"
ROLES = "replace the reference in one role at a time: any of encoder, decoder, cross"
RATES = "learning rates that each mechanism tries with the first seed; the best is used"
METRICS = "scores of the test set; the first decides (bleu,chrf, or the metric of the runs)"


def split(text: str) -> list[str]:
    return text.split(",")


def read_roles(text: str) -> list[str]:
    known = ("encoder", "decoder", "cross")
    if unknown := [role for role in split(text) if role not in known]:
        raise ConfigError(f"{unknown[0]} is not a role: give some of {', '.join(known)}")
    return split(text)


class CompareOptions(Options):
    """The options of `seq2seq compare`."""

    inputs: Sequence[str] = argument(INPUTS, "INPUT", nargs="+")
    valid: list[InputPath] | None = value("validation pairs (held out)", "FILE", nargs=2)
    test: list[InputPath] | None = value("test pairs (held out)", "FILE", nargs=2)
    gold: InputPath | None = value("links of the test set, to score alignments", "FILE")
    metrics: list[str] | None = value(METRICS, "A,B", type=split)
    roles: list[str] = value(ROLES, "A,B", type=read_roles, default=())
    learning_rates: list[str] = value(RATES, "A,B", type=split, default=())
    reference: str = value("first row, with which others are compared", "NAME", default="mha")
    sentence: str = value("line of the test set for maps, or a text", "N", default="1")
    no_speed: bool = flag("do not measure speeds")
    anyway: bool = flag("measure speeds even on a busy machine")
    batches: int = value("training batches per round of speeds", "N", default=4)
    sentences: int = value("sentences translated per round of speeds", "N", default=50)
    rounds: int = value("rounds of speeds", "N", default=5)
    threads: int | None = value("threads that speeds are measured with", "N")
    output: Path | None = value("folder of results (comparison, or the first sweep)", "DIR", "-o")


def run(options: CompareOptions) -> None:
    """Train on two files with options of training, or compare the runs in folders.

    Raises: ConfigError if the arguments are neither.
    """
    paths = [Path(text) for text in options.inputs if is_path(text)]
    overrides = [text for text in options.inputs if not is_path(text)]
    is_training = bool(overrides) or any(path.is_file() for path in paths)
    folder = options.output or (Path("comparison") if is_training else paths[0])
    if folder.is_file():
        raise ConfigError(f"-o {folder} is a file: give the name of a folder")
    written = chain(folder.glob("comparison.*"), folder.glob("data/*"))
    check_apart(written, f"-o {folder}", [*paths, *inputs_of(options)])
    limit_kernel_cache()  # before torch, as in training
    import torch  # only here, since it takes a second

    from seq2seq.metrics.registry import find_metrics

    find_metrics(options.metrics or ())
    torch.set_num_threads(options.threads or torch.get_num_threads())
    if is_training:
        if len(paths) != 2 or any(path.is_dir() for path in paths):
            typed = " ".join(options.inputs)
            raise ConfigError(
                f"to train, give two files of text and options, not {typed}: {EXAMPLE}"
            )
        train_and_compare(paths, overrides, options, folder)
        return
    reason = "is only for training, not for trained runs: leave it out"
    check_absent(options, ("--valid", "--roles", "--learning-rates"), reason)
    compare_runs(paths, options, folder, options.test, "Runs that were trained before.")


def is_path(text: str) -> bool:
    return Path(text).exists() or not OVERRIDE.fullmatch(text)


def train_and_compare(
    text: Files, overrides: Sequence[str], options: CompareOptions, folder: Path
) -> None:
    """Check all options and files, train the missing runs, and compare all runs.

    Raises: ConfigError if options are not valid, or if a run failed.
    """
    from seq2seq.comparison.maps import find_sentence
    from seq2seq.comparison.results import read_test
    from seq2seq.comparison.training import Grid, describe_budget, plan_jobs, train_all

    typed = dict(option.partition("=")[::2] for option in overrides)
    languages = language_of(text, (typed.get("data.source"), typed.get("data.target")))
    given = {"valid": options.valid, "test": options.test}
    runs = folder / "runs"
    parts = write_parts(text, given, folder / "data", languages, anew=not runs.is_dir())
    test_files = parts.files["test"]
    test = read_test(test_files, options.gold, {})
    find_sentence(options.sentence, test.pairs, test.place)
    grid = Grid(options.reference, options.roles, options.learning_rates)
    jobs, undefined = plan_jobs(overrides, parts, languages, runs, grid)
    counts = ", ".join(f"{count:,} {name}" for name, count in parts.counts.items())
    lead = f"{text[0]} and {text[1]}, in pairs: {counts}. {describe_budget(jobs)}. Options: "
    lead += " ".join(overrides)
    print(printable(lead), file=sys.stderr, flush=True)
    leaks = [each.describe(parts.counts[name], name) for name, each in parts.leaks.items()]
    print(*map(printable, leaks), sep="\n", file=sys.stderr, flush=True)
    trained, tried, failed = train_all(jobs)
    if jobs[0].plan.run.dry_run:
        return
    if trained:
        notes = [*leaks, *tried, *failed, *undefined]
        folders = [job.folder for job in trained]
        compare_runs(folders, options, folder, test_files, lead, notes)
    if failed:
        raise ConfigError("\n".join(failed))


def compare_runs(
    folders: Sequence[Path],
    options: CompareOptions,
    output: Path,
    files: Files | None,
    lead: str,
    notes: Sequence[str] = (),
) -> None:
    """Read finished runs, measure them, print the answer and write the results.

    Args:
        output: folder of the results.
        files: test set; None = that of the runs.
        lead: line that says what was compared on which data.
        notes: messages about the training.
    """
    from seq2seq.comparison import page, results, rows, runs
    from seq2seq.comparison.maps import find_sentence
    from seq2seq.comparison.speed import Speeds, measure_speeds

    tuned = ["optimizer.lr"] if options.learning_rates else []
    trained, skipped = runs.read_runs(folders)
    differing = runs.list_differing_options(trained, [f"update.{name}" for name in tuned])
    notes = [*notes, *skipped, *differing]
    test = results.read_test(files, options.gold, trained[0].saved.config["data"])
    if files is None:
        notes.append(f"The test set is {test.place}, from the configuration of the runs.")
    print(*map(printable, notes), sep="\n", end="\n" if notes else "", file=sys.stderr)
    sentence = find_sentence(options.sentence, test.pairs, test.place)
    groups = runs.in_order(runs.group_runs(trained, tuned), options.reference)
    scores = results.judge_groups(groups, test, options.metrics, output / "translations")
    speeds: Mapping[str, Speeds] = {}
    if not options.no_speed:
        # After hours of training, the user wants the page in any case.
        wait = not options.anyway and folders[0].parent != output / "runs"
        amounts = options.batches, options.sentences, options.rounds
        speeds, said = measure_speeds(groups, *amounts, wait=wait)
        notes.append(said)
    seconds = max(run.seconds for run in groups[0].runs)
    named = zip(groups, scores, strict=True)
    table = [rows.build_row(g, score, speeds.get(g.name), seconds) for g, score in named]
    output.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join([*rows.describe_rows(table), *notes]) + "\n"
    write_text(output / "comparison.md", text)
    rows.write_csv(table, output / "comparison.csv")
    page.write_comparison(output / "comparison.html", groups, table, sentence, lead, notes)
    print(printable(text))
    print(f"wrote {output / 'comparison'}.html, .md and .csv", file=sys.stderr)
