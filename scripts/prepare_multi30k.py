"""Download the Multi30k corpus (task 1: image captions in English, German and French).

    python scripts/prepare_multi30k.py [--languages en de fr] [--out data/multi30k] [--from FOLDER]
    python scripts/prepare_multi30k.py --tok     lower-cased, normalised, tokenised, as in papers

Every file is verified by its SHA-256 before it gets its final name, and existing files are kept, so
after an interruption simply run the same command again. Then: python train.py data=multi30k, or
data=multi30k_tok for the tokenised form.

The captions derive from Flickr30K and are for research and education, not for commercial use. Cite
Elliott et al. 2016 (W16-3210), Elliott et al. 2017 (W17-4718) and Barrault et al. 2018 (W18-6402).
"""

import argparse
import hashlib
import http.client
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from seq2seq.base.durable import replacing

URL = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/"
)
DEFAULT_OUT = Path(__file__).resolve().parent.parent / "data" / "multi30k"
TOK = ".lc.norm.tok"  # part of the names of the tokenised files
CHECKSUMS = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    f"train{TOK}.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    f"train{TOK}.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    f"train{TOK}.fr": "8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1",
    f"val{TOK}.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    f"val{TOK}.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    f"val{TOK}.fr": "b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a",
    f"test_2016_flickr{TOK}.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    f"test_2016_flickr{TOK}.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    f"test_2016_flickr{TOK}.fr": "1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836",
}


class PrepareError(Exception):
    """Raised if a file cannot be fetched; the message says what to do."""


def names_of(languages: Sequence[str], tokenised: bool) -> list[str]:
    """The names of the files in these languages, raw or tokenised, in the order of CHECKSUMS."""
    names = [name for name in CHECKSUMS if (TOK in name) == tokenised]
    return [name for name in names if name.removesuffix(".gz").rpartition(".")[2] in languages]


def address(name: str) -> str:
    return f"{URL}{'tok' if TOK in name else 'raw'}/{name}"


def fetch(name: str, out: Path, local: Path | None) -> str:
    """Copy one file into a folder, from the network or from a local folder.

    Returns: `kept`, `downloaded` or `copied`.
    Raises: PrepareError if the file cannot be fetched or is not the published one; the folder is
        then unchanged.
    """
    file = out / name
    if file.exists():
        if not is_right(name, file.read_bytes()):
            raise PrepareError(
                f"{file} exists, but is not the published file (another SHA-256). "
                "Move it away and run this again."
            )
        return "kept"
    content = download(address(name)) if local is None else read_local(local / name)
    if not is_right(name, content):
        raise PrepareError(
            f"{address(name) if local is None else local / name} is not the published file: its "
            f"SHA-256 is {hashlib.sha256(content).hexdigest()}, expected {CHECKSUMS[name]}."
        )
    with replacing(file) as target:
        target.write(content)
    return "downloaded" if local is None else "copied"


def is_right(name: str, content: bytes) -> bool:
    return hashlib.sha256(content).hexdigest() == CHECKSUMS[name]


def download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            content: bytes = response.read()
            return content
    except (OSError, http.client.HTTPException) as error:
        raise PrepareError(
            f"cannot download {url}: {error}. Files already there are kept; run this again later. "
            "Without a network, copy them from a folder: --from FOLDER"
        ) from error


def read_local(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise PrepareError(
            f"cannot read {file}: {error.strerror}. The folder of --from should hold the files of "
            f"{address(file.name).rpartition('/')[0]} under the same names."
        ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the files that the command line asks for. Returns: the exit code."""
    parser = argparse.ArgumentParser(description="Fetch the Multi30k corpus.")
    parser.add_argument(
        "--languages",
        nargs="+",
        choices=("en", "de", "fr"),
        default=["en", "de"],
        help="default: en de",
    )
    parser.add_argument(
        "--tok",
        action="store_true",
        help="the lower-cased, normalised and tokenised files that papers use, into OUT/tok",
    )
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="default: data/multi30k")
    parser.add_argument(
        "--from", type=Path, dest="local", metavar="FOLDER", help="copy the files from here"
    )
    options = parser.parse_args(arguments)
    out = options.out / "tok" if options.tok else options.out
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in names_of(options.languages, options.tok):
            print(f"{name}: {fetch(name, out, options.local)}", flush=True)
    except PrepareError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: cannot write to {out}: {error.strerror}.", file=sys.stderr)
        return 1
    data = "multi30k_tok" if options.tok else "multi30k"
    print(f"For research and education only, like Flickr30K. Next: python train.py data={data}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
