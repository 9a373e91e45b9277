"""Write data/demo: a small German-English corpus with exact word alignments, from a grammar.

    python scripts/make_demo_corpus.py [--out data/demo] [--seed 1]

Every part is three files of equal length: sentences in .de and .en, links in .align, where "i-j"
links word i of the German line to word j of the English line (from 0, words separated by spaces).
The same seed gives the same bytes on every machine.
"""

import argparse
from pathlib import Path

from demo_corpus.corpus import Record, build

DEFAULT_SEED = 1
DEFAULT_OUT = Path(__file__).resolve().parent.parent / "data" / "demo"


def write_lines(path: Path, lines: list[str]) -> None:
    """UTF-8 with a line feed after every line, on every system."""
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def write_part(folder: Path, name: str, records: list[Record]) -> None:
    """The three files of one part of the corpus."""
    write_lines(folder / f"{name}.de", [record.german for record in records])
    write_lines(folder / f"{name}.en", [record.english for record in records])
    alignments = [" ".join(f"{i}-{j}" for i, j in record.links) for record in records]
    write_lines(folder / f"{name}.align", alignments)


def main(arguments: list[str] | None = None) -> None:
    """Build the corpus and write its nine files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder for the nine files")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="seed of the generator")
    options = parser.parse_args(arguments)
    corpus = build(options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, records in corpus._asdict().items():
        write_part(options.out, name, records)
        print(f"{options.out / name}: {len(records):,} sentence pairs")


if __name__ == "__main__":
    main()
