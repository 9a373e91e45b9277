"""Draw quality against speed, size and latency: several runs, each in several ways.

    python scripts/pareto.py runs/teacher runs/student test.de test.en
    python scripts/pareto.py runs/student test.de test.en --ways float32-5,int8-1-shortlist

A way is a precision, a number of beams, and `shortlist` where the run has one. Each run is also
exported to CTranslate2, where that can express it, and translates there in the same ways, with its
shortlist as a vocabulary map, in batches of the fastest size of three. All translate the same
pieces in one thread, in turn, round by round; cutting into pieces and loading are not timed.
Latency is of single sentences of about 20 words, sizes are of the weights as they lie on disk.

Writes pareto.md, pareto.json and pareto.png into --output. Needs pip install ctranslate2; without
it, ours are measured alone. The machine must be idle; --anyway measures all the same.
"""

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from benchmarking import await_idle, conditions, interleave
from decoding_bench.engines import search_of
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from seq2seq import checkpoint
from seq2seq.base.errors import Seq2SeqError, fail
from seq2seq.base.symbols import EOS
from seq2seq.checkpoint.folder import find_checkpoint
from seq2seq.checkpoint.quantize import quantize_checkpoint
from seq2seq.data.text.lines import check_parallel, read_lines
from seq2seq.decoding import Engine, SentenceRequest
from seq2seq.decoding.precision import with_precision
from seq2seq.decoding.shortlist.file import find_shortlist, read_shortlist
from seq2seq.interchange import ctranslate2 as exchange
from seq2seq.metrics.scores import score_corpus
from seq2seq.pages.plots import INK, METADATA, QUIET
from seq2seq.text.tokenization.tokenizer import Tokenizers

WAYS = ("float32-5", "float32-1", "int8-1", "int8-1-shortlist")
WORDS, SINGLE = 20, 50  # of the sentences whose latency is measured, and how many
BATCHES = (16, 48, 128)  # sentences, to try in CTranslate2; ours packs its batches itself
COLORS = {"ours": "#376cb4", "CTranslate2": "#c2703d"}

Rows = Sequence[list[int]]  # ids of sources, without an end
Translate = Callable[[Rows], list[list[int]]]


class Way(NamedTuple):
    """How a run translates."""

    precision: str
    beams: int
    shortlist: bool

    @classmethod
    def parse(cls, text: str) -> "Way":
        """Raises: ValueError for another form than `int8-1` or `int8-1-shortlist`."""
        match = re.fullmatch(r"(float32|int8)-(\d+)(-shortlist)?", text)
        if match is None:
            raise ValueError(text)
        return cls(match[1], int(match[2]), match[3] is not None)

    def __str__(self) -> str:
        search = "greedy" if self.beams == 1 else f"beam {self.beams}"
        return f"{self.precision}, {search}{', shortlist' if self.shortlist else ''}"


@dataclass
class Point:
    """A run that translates in one way by one engine, and what was measured of it."""

    run: str
    engine: str
    way: str
    megabytes: float
    bleu: float = 0.0
    rates: list[float] = field(default_factory=list)  # sentences per second, a round each
    milliseconds: float = 0.0  # of a single sentence, the median

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


class Run:
    """A run, and its test set in pieces. Without a shortlist it has no ways that ask for one."""

    def __init__(self, path: Path, ways: Sequence[Way], sources: Sequence[str]):
        self.path = find_checkpoint(path)
        self.name = path.name if path.is_dir() else f"{path.parent.name}/{path.stem}"
        self.saved = checkpoint.read(self.path)
        self.rows = self.saved.source.encode_batch(list(sources))
        self.limit = 2 * max(map(len, self.rows))  # pieces of a translation, in both engines
        file = find_shortlist(path)
        tokenizers = Tokenizers(self.saved.source, self.saved.target)
        self.lists = None if file is None else read_shortlist(file, tokenizers)
        self.ways = [way for way in ways if self.lists is not None or not way.shortlist]

    def ours(self, folder: Path) -> Iterator[tuple[Point, Translate]]:
        model = self.saved.build()
        sizes = {"float32": quantize_checkpoint(self.path, folder / "int8.ckpt")}
        sizes["int8"] = (folder / "int8.ckpt").stat().st_size
        for way in self.ways:
            engine = Engine(
                with_precision(model, way.precision),
                search_of(way.beams, self.limit),
                shortlist=self.lists if way.shortlist else None,
            )
            point = Point(self.name, "ours", str(way), sizes[way.precision] / 1e6)
            yield point, partial(translate_by_ours, engine)

    def by_ctranslate2(self, folder: Path) -> Iterator[tuple[Point, Translate]]:
        """Raises: ConfigError if CTranslate2 is missing, or cannot compute the model."""
        for precision in sorted({way.precision for way in self.ways}):
            # Its own copy of the weights, since CTranslate2 rounds them in place.
            own = checkpoint.read(self.path)
            exchange.export(own, folder / precision, precision=precision)
            if self.lists is not None:
                exchange.write_vocabulary_map(self.saved, folder / precision, self.lists)
        for way in self.ways:
            model = folder / way.precision
            size = (model / "model.bin").stat().st_size / 1e6
            point = Point(self.name, "CTranslate2", str(way), size)
            yield point, CTranslate2(self, model, way)

    def bleu(self, hypotheses: Sequence[list[int]], references: Sequence[str]) -> float:
        texts = self.saved.target.decode_batch(list(hypotheses))
        language = str(self.saved.config["data"]["target"])
        return score_corpus(texts, references, language=language)[0].value


def translate_by_ours(engine: Engine, rows: Rows) -> list[list[int]]:
    ended = engine.translate(SentenceRequest([*row, EOS]) for row in rows)
    return [each.hypotheses[0].ids if each.hypotheses else [] for each in ended]


class CTranslate2:
    """A way of a run in CTranslate2, in batches of the fastest size."""

    def __init__(self, run: Run, folder: Path, way: Way):
        from ctranslate2 import Translator

        self.source, self.target = run.saved.source.symbols(), run.saved.target.symbols()
        self.ids = {symbol: index for index, symbol in enumerate(self.target)}
        self.engine = Translator(str(folder), compute_type=way.precision, intra_threads=1)
        self.options: dict[str, Any] = {
            "beam_size": way.beams,
            "length_penalty": 1.0,
            "max_decoding_length": run.limit,
            "max_input_length": 0,
            "use_vmap": way.shortlist,
        }
        sizes = {size: self.seconds(run.rows, size) for size in BATCHES}
        self.options["max_batch_size"] = min(sizes, key=sizes.__getitem__)

    def seconds(self, rows: Rows, size: int) -> float:
        self.options["max_batch_size"] = size
        start = time.perf_counter()
        self(rows)
        return time.perf_counter() - start

    def __call__(self, rows: Rows) -> list[list[int]]:
        pieces = [[self.source[i] for i in row] for row in rows]
        ended = self.engine.translate_batch(pieces, **self.options)
        return [[self.ids[piece] for piece in each.hypotheses[0]] for each in ended]


def find_ways(run: Run, folder: Path) -> Iterator[tuple[Point, Translate]]:
    """The ways of a run by both engines. Says why CTranslate2 is left out."""
    yield from run.ours(folder)
    try:
        yield from run.by_ctranslate2(folder)
    except Seq2SeqError as error:
        print(f"{run.name} is left out of CTranslate2: {error}", file=sys.stderr)


def measure(
    ways: Sequence[tuple[Run, Point, Translate]], sources: Sequence[str], options: Any
) -> list[Point]:
    """Fill in the figures of all points, round by round."""
    order = sorted(range(len(sources)), key=lambda i: abs(len(sources[i].split()) - WORDS))
    references = list(read_lines(options.reference))

    def rate(run: Run, translate: Translate) -> float:
        start = time.perf_counter()
        translate(run.rows)
        return len(run.rows) / (time.perf_counter() - start)

    def latency(run: Run, translate: Translate) -> float:
        times = []
        for i in order[:SINGLE]:
            start = time.perf_counter()
            translate([run.rows[i]])
            times.append(1000 * (time.perf_counter() - start))
        return statistics.median(times)

    def time_both(run: Run, translate: Translate, _: int) -> tuple[float, float]:
        return rate(run, translate), latency(run, translate)

    timed = {str(i): partial(time_both, run, each) for i, (run, _, each) in enumerate(ways)}
    measured = interleave(timed, options.rounds, warmup=1)
    for i, (run, point, translate) in enumerate(ways):
        point.rates = [rate for rate, _ in measured[str(i)]]
        point.milliseconds = statistics.median(each for _, each in measured[str(i)])
        point.bleu = run.bleu(translate(run.rows), references)
    return [point for _, point, _ in ways]


def table(points: Sequence[Point]) -> str:
    head = (
        "|  | run | engine | way | BLEU | sentences/s | ms a sentence | MB |\n" + "|---" * 8 + "|"
    )
    rows = [
        f"| {number} | {p.run} | {p.engine} | {p.way} | {p.bleu:.1f} | {p.rate:,.0f} "
        f"({min(p.rates):,.0f} - {max(p.rates):,.0f}) | {p.milliseconds:.1f} | {p.megabytes:.1f} |"
        for number, p in enumerate(points, 1)
    ]
    return "\n".join([head, *rows]) + "\n"


def draw(points: Sequence[Point], path: Path) -> None:
    """BLEU above sentences per second and above milliseconds; dots have the area of megabytes, and
    the numbers of the list beside them."""
    figure = Figure(figsize=(13, 5), layout="constrained")
    FigureCanvasAgg(figure)
    *charts, names = figure.subplots(1, 3, width_ratios=(5, 5, 3))
    titles = ("sentences per second", f"milliseconds for one sentence of about {WORDS} words")
    for axes, title, sides in zip(charts, titles, ("rate", "milliseconds"), strict=True):
        for number, point in enumerate(points, 1):
            place, color = (getattr(point, sides), point.bleu), COLORS[point.engine]
            axes.scatter(*place, 12 * point.megabytes, color, alpha=0.4, linewidths=0)
            axes.annotate(str(number), place, fontsize=8, color=color, ha="center", va="center")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.margins(0.1)
        axes.set_xlabel(title, fontsize=9, color=QUIET)
        axes.set_ylabel("BLEU", fontsize=9, color=QUIET)
        axes.tick_params(labelsize=8, colors=INK, which="both")
    names.set_axis_off()
    for number, point in enumerate(points, 1):
        line = f"{number}  {point.run}, {point.engine}: {point.way}"
        height = 1 - number / (len(points) + 1)
        names.text(0, height, line, fontsize=8, color=COLORS[point.engine], va="center")
    figure.savefig(path, dpi=130, metadata=METADATA["png"])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+", help="checkpoints, or folders of runs")
    parser.add_argument("source", type=Path, help="sentences, one per line")
    parser.add_argument("reference", type=Path, help="their translations")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of each run ({','.join(WAYS)})")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds (3)")
    parser.add_argument("--output", type=Path, default=Path("runs/benchmark"))
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine, too")
    options = parser.parse_args()
    try:
        options.ways = [Way.parse(text) for text in options.ways.split(",")]
    except ValueError as error:
        parser.error(f"--ways: {error} is no way; examples: {', '.join(WAYS)}")
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds} should be at least 1")
    return options


def main() -> None:
    options = parse_arguments()
    torch.set_num_threads(1)
    check_parallel(options.source, options.reference, "comparing")
    sources = list(read_lines(options.source))
    with TemporaryDirectory() as folder:
        ways = []
        for number, path in enumerate(options.runs):
            run, place = Run(path, options.ways, sources), Path(folder) / str(number)
            place.mkdir()
            ways += [(run, point, translate) for point, translate in find_ways(run, place)]
        if not options.anyway:
            await_idle()
        points = measure(ways, sources, options)
    report = (
        f"{conditions()}; {len(sources):,} sentences of {options.source.name}\n\n{table(points)}"
    )
    print(report)
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / "pareto"
    stem.with_suffix(".md").write_text(report, encoding="utf-8")
    records = [asdict(point) for point in points]
    stem.with_suffix(".json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    draw(points, stem.with_suffix(".png"))


if __name__ == "__main__":
    try:
        main()
    except Seq2SeqError as error:
        sys.exit(fail(str(error)))
