"""Compare the runs of a sweep over attention mechanisms: one table, and its picture.

    python train.py -m attn=mha,gqa,fixed seed=1,2 hydra.sweep.dir=runs/sweeps/zoo
    python scripts/compare_attention.py runs/sweeps/zoo --test data/demo/test.de data/demo/test.en

One row per mechanism: roles, BLEU and loss of the best validation (and BLEU of a test set,
translated now with the best weights), parameters, speeds, and bytes cached while decoding. Several
seeds give a mean and a deviation. The first row is the reference (--reference mha, or the best if
there is none); the others follow by BLEU.

Speeds are measured now, all mechanisms taking turns on the same batches in this process: the best
of the rounds, on an idle machine (--anyway measures on a busy one; --no-speed leaves them out).
Bytes are the growth of the cache from 512 to 1,024 tokens, in all layers; `0 + 66,560` is a fixed
size. Unfinished runs are named and left out; differences between the runs other than attention are
named. Writes comparison.md, .csv and .png into the first sweep, or --output.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from seq2seq.environment import limit_kernel_cache, limit_thread_spinning

limit_thread_spinning()  # before torch, as in training
limit_kernel_cache()

import torch  # noqa: E402
from benchmarking import await_idle, conditions, foreign_load  # noqa: E402
from comparison.memory import measure_memory  # noqa: E402
from comparison.picture import draw  # noqa: E402
from comparison.rows import Mean, Row, markdown, write_csv  # noqa: E402
from comparison.runs import Group, group_runs, in_order, incomparable, read_runs  # noqa: E402
from comparison.speed import Material, Speeds, parameters, speeds  # noqa: E402

from seq2seq.data.text import check_parallel, read_lines  # noqa: E402
from seq2seq.errors import Seq2SeqError, fail  # noqa: E402
from seq2seq.metrics.scores import score_corpus  # noqa: E402
from seq2seq.translator import Translator  # noqa: E402


def row_of(group: Group, test: Sequence[Path] | None, measured: Speeds | None) -> Row:
    run = group.runs[0]
    model = run.saved.build()
    past, source = measure_memory(model, run.saved.config["data"]["max_length"])
    return Row(
        name=group.name,
        roles=run.roles,
        seeds=len(group.runs),
        bleu=Mean.of([run.bleu for run in group.runs]),
        loss=Mean.of([run.loss for run in group.runs]),
        test=Mean.of([test_bleu(run.folder, *test) for run in group.runs]) if test else None,
        parameters=parameters(model),
        past=past,
        source=source,
        speeds=measured,
    )


def test_bleu(folder: Path, source: Path, reference: Path) -> float:
    """BLEU of a run's best weights, with the search it was configured with."""
    print(f"translating {source} with {folder.name}", file=sys.stderr, flush=True)
    translator = Translator.load(folder / "best.ckpt", "cpu")
    translations = translator.translate(list(read_lines(source)))
    language = translator.config["data"]["target"]
    return score_corpus(translations, list(read_lines(reference)), language=language)[0].value


def measure(groups: Sequence[Group], options: argparse.Namespace) -> tuple[dict[str, Speeds], str]:
    """The speeds of the first run of each mechanism, and the conditions."""
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


def compare(options: argparse.Namespace) -> None:
    if options.test:
        check_parallel(options.test[0], options.test[1], "scoring")
    runs, skipped = read_runs(options.sweeps)
    notes = [*skipped, *incomparable(runs)]
    print("\n".join(notes), file=sys.stderr, end="\n" if notes else "")
    groups = in_order(group_runs(runs), options.reference)
    measured: dict[str, Speeds] = {}
    if not options.no_speed:
        measured, said = measure(groups, options)
        notes.append(said)
    rows = [row_of(group, options.test, measured.get(group.name)) for group in groups]
    folder = options.output or options.sweeps[0]
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join([markdown(rows), *notes]) + "\n"
    (folder / "comparison.md").write_text(text, encoding="utf-8")
    write_csv(rows, folder / "comparison.csv")
    draw(rows, folder / "comparison.png")
    print(text)
    print(f"wrote {folder / 'comparison'}.md, .csv and .png", file=sys.stderr)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweeps", nargs="+", type=Path, help="folders of sweeps, or of single runs")
    parser.add_argument("--test", nargs=2, type=Path, metavar=("SRC", "REF"), help="for BLEU, too")
    parser.add_argument("--reference", default="mha", help="the row that ratios refer to")
    parser.add_argument("--no-speed", action="store_true", help="do not measure speeds")
    parser.add_argument("--batches", type=int, default=4, help="training batches per round")
    parser.add_argument("--sentences", type=int, default=50, help="sentences translated per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--output", type=Path, help="folder for the results")
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine, too")
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    try:
        compare(options)
    except Seq2SeqError as error:
        sys.exit(fail(str(error)))


if __name__ == "__main__":
    main()
