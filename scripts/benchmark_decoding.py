"""Translate the same sentences with this toolkit, CTranslate2 and Hugging Face, side by side.

    python scripts/benchmark_decoding.py RUN source.txt --reference reference.txt
    python scripts/benchmark_decoding.py RUN source.txt --candidates floor-1x2,ct2-int8-1x2
    python scripts/benchmark_decoding.py RUN source.txt --latency        one sentence at a time

All engines use the weights of one checkpoint (`seq2seq export` for CTranslate2, a Marian model for
Hugging Face), the same piece ids, the same search, and the same number of cores: 2x1 means two
workers with one thread each, 1x2 one worker with two threads. `torch` is our engine without the
native decoder. `floor` is the time of our matrix products alone. Tokenisation, loading and
conversion are not timed. Each candidate runs in separate processes, which stay warm; the candidates
take turns translating everything, round by round. CTranslate2 and Hugging Face use the batch size
that is fastest on this machine; CTranslate2 also tries sizes in tokens.

Free lengths: the model decides where a translation ends. Forced lengths: every translation has
--forced-length pieces, so that no engine gains by shorter translations.

Writes decoding.md (tables), decoding.json (every round) and decoding.png into --output. Needs
pip install ctranslate2 transformers; missing engines are left out, and the report says so. The
machine must be idle: disturbed runs are repeated, unless --anyway is given.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from decoding_bench.bars import draw
from decoding_bench.candidates import ALL, BatchSize, Candidate, parse
from decoding_bench.crews import CannotError, Crew, Job
from decoding_bench.engines import Files
from decoding_bench.latency import latencies
from decoding_bench.measure import Protocol
from decoding_bench.report import Line, lines, record, section

from seq2seq import checkpoint
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import EOS
from seq2seq.checkpoint.folder import find_checkpoint, load_archive
from seq2seq.comparison.conditions import processor
from seq2seq.data.text.lines import read_lines
from seq2seq.interchange.ctranslate2 import export
from seq2seq.interchange.imported import NEVER
from seq2seq.metrics.registry import build_bleu

OUTPUT_BIAS = f"{checkpoint.PREFIX}embeddings.output.bias"


def forms(path: Path, folder: Path, regimes: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Write the model for each regime, as a checkpoint and as a CTranslate2 folder.

    The models differ only in that the one for forced lengths never ends a translation.

    Returns: paths of the checkpoint and of the folder, by regime.
    """
    files = {}
    for regime in regimes:
        content = load_archive(find_checkpoint(path))
        state = {name: value.clone() for name, value in content["state_dict"].items()}
        if regime == "forced":
            state[OUTPUT_BIAS][EOS] = NEVER
        file, exported = folder / f"{regime}.ckpt", folder / regime
        torch.save({"state_dict": state, checkpoint.ENTRY: content[checkpoint.ENTRY]}, file)
        try:
            export(checkpoint.read(file), exported)
        except ConfigError as error:  # without a folder, CTranslate2 is left out later
            print(f"not exported: {error}", file=sys.stderr)
        files[regime] = (str(file), str(exported))
    return files


def read_sources(
    saved: checkpoint.Saved, source: Path, reference: Path | None, max_sentences: int | None
) -> tuple[list[list[int]], list[str] | None]:
    """The ids of the first sentences, including eos, and their references. Empty sentences and
    those that are too long are skipped.
    """
    texts = list(read_lines(source))[:max_sentences]
    references = None if reference is None else list(read_lines(reference))[:max_sentences]
    if references is not None and len(references) != len(texts):
        sys.exit(f"{source} has {len(texts)} lines, but {reference} has {len(references)}")
    longest = saved.config["data"]["max_length"] - 1
    rows = saved.source.encode_batch(texts)
    kept = [i for i, row in enumerate(rows) if 0 < len(row) <= longest]
    if not kept:
        sys.exit(f"{source} holds no sentence that the model can read")
    kept_references = None if references is None else [references[i] for i in kept]
    return [[*rows[i], EOS] for i in kept], kept_references


def hire(
    candidates: Sequence[Candidate], files: dict[str, tuple[str, str]]
) -> tuple[dict[str, Crew], list[str]]:
    """Load the candidates. Returns: those that run on this machine, and a note for each other."""
    crews, left_out = {}, []
    for candidate in candidates:
        print(f"loading {candidate.name}", file=sys.stderr, flush=True)
        try:
            crews[candidate.name] = Crew(candidate, files)
        except CannotError as error:
            left_out.append(f"`{candidate.name}`: {error}")
    return crews, left_out


def bleu(saved: checkpoint.Saved, references: list[str], hypotheses: list[list[int]]) -> float:
    language = str(saved.config["data"]["target"])
    metric = build_bleu(language, [references])
    return float(metric.corpus_score(saved.target.decode_batch(hypotheses), None).score)


def said(options: argparse.Namespace, rows: Sequence[list[int]]) -> list[str]:
    """The conditions of the measurement: machine, libraries, checkpoint and data."""
    libraries = ["torch", "ctranslate2", "transformers"]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    pieces = sum(map(len, rows))
    return [
        f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, "
        f"{', '.join(f'{name} {installed(name)}' for name in libraries)}; commit "
        f"{commit.stdout.strip() or 'unknown'}",
        f"{options.checkpoint}, {len(rows):,} sentences of {options.source.name}, {pieces:,} "
        f"source pieces, end symbols included; {options.rounds} rounds after {options.warmup}",
    ]


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def jobs(options: argparse.Namespace, rows: Sequence[list[int]]) -> list[Job]:
    """One job for each regime and search. All sentences and engines have the same length limit."""
    limit = min(256, max(map(len, rows)) * 3 // 2 + 10)
    limits = {"free": limit, "forced": options.forced_length}
    return [
        Job(regime, beams, limits[regime]) for regime in options.regimes for beams in options.beams
    ]


def compare(
    options: argparse.Namespace, folder: Path
) -> tuple[list[str], list[Any], dict[str, list[Line]]]:
    """Measure all jobs. Returns: the report's sections, their records, and their lines by title."""
    saved = checkpoint.read(options.checkpoint)
    rows, references = read_sources(saved, options.source, options.reference, options.sentences)
    crews, left_out = hire(options.candidates, forms(options.checkpoint, folder, options.regimes))
    sizes = [BatchSize(size, "sentences") for size in options.batch_sizes]
    sizes += [BatchSize(size, "tokens") for size in options.batch_tokens]
    protocol = Protocol(options.rounds, options.warmup, sizes, options.anyway)
    head = ["# Decoding, side by side", *said(options, rows), *(f"Left out {e}" for e in left_out)]
    pages, records, drawn = ["\n\n".join(head) + "\n"], [], {}
    print(pages[0], flush=True)
    for job in jobs(options, rows):
        measured = protocol.measure(crews, job, rows)
        # BLEU of translations with forced lengths would mean nothing.
        judge = partial(bleu, saved, references) if references and job.regime == "free" else None
        figures = lines(measured, judge)
        pages.append(section(measured, figures))
        print(pages[-1], flush=True)
        records.append(record(measured, figures))
        drawn[job.title] = figures
    for crew in crews.values():
        crew.close()
    return pages, [{"conditions": head[1:]}, *records], drawn


def latency(options: argparse.Namespace, folder: Path) -> str:
    """Tables of the times of single sentences, for both precisions and all searches."""
    paths = forms(options.checkpoint, folder, ["free"])
    files = {regime: Files(*each) for regime, each in paths.items()}
    saved = checkpoint.read(options.checkpoint)
    rows, _ = read_sources(saved, options.source, None, options.sentences)
    limit = min(256, max(map(len, rows)) * 3 // 2 + 10)
    tables = [
        latencies(files, rows, beams, limit, precision)
        for precision in ("float32", "int8")
        for beams in options.beams
    ]
    return "\n".join(tables)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path, help="a checkpoint, or the folder of a run")
    parser.add_argument("source", type=Path, help="sentences, one per line, plain or .gz")
    parser.add_argument("--reference", type=Path, help="their translations, for BLEU")
    parser.add_argument("--candidates", type=candidates, default=ALL, help="separated by commas")
    parser.add_argument("--sentences", type=int, help="number of sentences to read (default: all)")
    parser.add_argument("--beams", type=integers, default=[1, 5], help="beam sizes (1,5)")
    parser.add_argument("--regimes", type=regimes, default=["free", "forced"])
    parser.add_argument("--forced-length", type=int, default=20, help="pieces of a translation")
    parser.add_argument(
        "--batch-sizes", type=integers, default=[16, 32, 64, 128], help="batch sizes to try"
    )
    parser.add_argument(
        "--batch-tokens",
        type=integers,
        default=[512, 1024, 2048],
        help="batch sizes in tokens to try with CTranslate2",
    )
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds")
    parser.add_argument("--warmup", type=int, default=2, help="rounds before the measured ones")
    parser.add_argument("--output", type=Path, default=Path("runs/benchmark/decoding"))
    parser.add_argument(
        "--latency", action="store_true", help="only measure the times of single sentences"
    )
    parser.add_argument("--anyway", action="store_true", help="measure even on a busy machine")
    return parser.parse_args()


def candidates(text: str) -> list[Candidate]:
    try:
        return [parse(name) for name in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def regimes(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= {"free", "forced"}:
        raise argparse.ArgumentTypeError(f"{text!r} should be free, forced or free,forced")
    return names


def integers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    options = parse_arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        if options.latency:
            print(latency(options, Path(folder)))
            return
        pages, records, drawn = compare(options, Path(folder))
    stem = options.output / "decoding"
    stem.with_suffix(".md").write_text("\n".join(pages), encoding="utf-8")
    stem.with_suffix(".json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    draw(drawn, stem.with_suffix(".png"))
    print(f"wrote {stem}.md, .json and .png", file=sys.stderr)


if __name__ == "__main__":
    main()
