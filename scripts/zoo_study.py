"""The zoo on tasks that tell mechanisms apart: longer strings, longer commands, a new verb.

    python scripts/zoo_study.py --data                   # write data/copy and data/reverse
    python scripts/zoo_study.py                          # all cells of copy and reverse; resumes
    python scripts/zoo_study.py --task copy --rows gqa,mha+rope
    python scripts/zoo_study.py --print                  # the commands of each cell, to be typed
    python scripts/zoo_study.py --table                  # docs/results/zoo.md and .png

A cell is a row (a preset of conf/attn, or `mha` with a scheme of conf/position) on a task: a
training of as many updates as all others of the task, and two evaluations, by the ordinary commands
with one thread. Its line goes to docs/results/zoo.jsonl, where cells that are there already are
skipped; a training that was killed is resumed.
"""

import argparse
import json
import sys
from pathlib import Path

from study.cells import RUNS, SEED, TASKS, Cell, select_cells
from study.page import insert_table, read_cells, render_tables
from study.picture import draw_lengths
from study.running import run_cell
from study.strings import TASKS as STRING_TASKS
from study.strings import write_strings

from seq2seq.base.errors import Seq2SeqError, fail

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--data", action="store_true", help="only write the strings")
    what.add_argument("--print", action="store_true", help="only print the commands of each cell")
    what.add_argument("--table", action="store_true", help="only write the page and its picture")
    parser.add_argument(
        "--task", type=names, default=["copy", "reverse"], help=f"any of {', '.join(TASKS)}"
    )
    parser.add_argument("--rows", type=names, default=[], help="such as gqa,mha+rope; default: all")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--runs", type=Path, default=RUNS, help="folder (%(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS / "zoo.jsonl", metavar="FILE")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="OPTION=VALUE", help="more options of train.py"
    )
    options = parser.parse_args()
    if options.set and options.results == parser.get_default("results") and not options.print:
        parser.error("--set is for trials, whose cells are others: add --results FILE")
    return options


def names(text: str) -> list[str]:
    return text.split(",")


def run_missing(cells: list[Cell], options: argparse.Namespace) -> int:
    """Run what is not in the file of results; 1 if a cell failed."""
    failed = 0
    for cell in cells:
        name = f"{cell.task.name} {cell.row.name}"
        if cell.key in {(c["task"], c["row"], c["seed"]) for c in read_cells(options.results)}:
            print(f"{name}: in {options.results} already", flush=True)
            continue
        try:
            line = run_cell(cell, options.runs, options.set)
        except Seq2SeqError as error:
            fail(f"{name}: {error}")
            failed = 1
            continue
        options.results.parent.mkdir(parents=True, exist_ok=True)
        with options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        scores = ", ".join(f"{part} {value}" for part, value in line["exact"].items())
        print(f"{name}: exact {scores}", flush=True)
    return failed


def write_page(results: Path) -> None:
    cells = read_cells(results)
    page = results.with_suffix(".md")
    if not page.is_file():
        raise Seq2SeqError(f"there is no {page}, into which the table of {results} would go")
    text = insert_table(page.read_text(encoding="utf-8"), render_tables(cells))
    page.write_text(text, encoding="utf-8")
    draw_lengths(cells, results.with_suffix(".png"))
    print(f"wrote {page} and its picture: {len(cells)} cells", file=sys.stderr)


def main() -> int:
    options = parse()
    if options.table:
        write_page(options.results)
        return 0
    cells = list(select_cells(options.task, options.rows, options.seed))
    if options.print:
        print("\n\n".join("\n".join(cell.commands(options.runs, options.set)) for cell in cells))
        return 0
    for task in STRING_TASKS:
        if options.data or task in options.task:
            write_strings(Path("data", task), task)
    return 0 if options.data else run_missing(cells, options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Seq2SeqError as error:
        sys.exit(fail(str(error)))
