"""Install each file that `make dist` has built into an empty environment, and test it there.

    python scripts/check_dist.py dist/*                             # with this Python
    python scripts/check_dist.py dist/*.whl --python 3.11 3.13      # found by uv, or in the PATH

In a folder outside the checkout, the script trains a model for a few updates on the packaged
corpus, evaluates it, translates and aligns with it, and lets it answer one request of a client. It
follows scripts/container/Dockerfile (extras, variables, entry point and health check), except that
the server listens only to this machine. A wheel with the compiled native decoder must work with a
PATH that has no compiler. Needs a network, or pip's cache.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

RUN = "runs/check"
TRAIN = f"train hydra.run.dir={RUN} trainer.max_steps=20 trainer.val_check_interval=20"
TEXT = "Drei Wochen denkt das Kind nach."
COMMANDS = (
    ["demo", "--corpus"],
    [*TRAIN.split(), "model.dim=32", "model.ffn_dim=64", "validation.sentences=20"],
    ["evaluate", RUN, "data/demo/valid.de", "data/demo/valid.en"],
    ["translate", RUN, TEXT],
    ["align", RUN, TEXT, "The child thinks.", "-o", "map.png"],
)
CONTAINER = Path(__file__).with_name("container") / "Dockerfile"
PORT = "8437"
PATIENCE = 60  # seconds for the service to be ready


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="wheels, an sdist")
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python", nargs="+", default=[own], metavar="V", help="versions")
    arguments = parser.parse_args()
    for version in arguments.python:
        for file in arguments.files:
            with tempfile.TemporaryDirectory() as folder:
                seconds = check(file.resolve(), find_python(version), Path(folder))
            print(f"Python {version}: {file.name} works ({seconds:.0f} s)", flush=True)


def find_python(version: str) -> str:
    """The path of a Python interpreter. Raises: SystemExit if the version is not installed."""
    if uv := shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"):
        done = subprocess.run([uv, "python", "find", version], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    for path in filter(None, (shutil.which(f"python{version}"), sys.executable)):
        done = subprocess.run([path, "--version"], capture_output=True, text=True)
        if done.stdout.startswith(f"Python {version}."):
            return path
    raise SystemExit(f"no Python {version}: pip install uv, and uv python install {version}")


def check(file: Path, python: str, folder: Path) -> float:
    """Install a file and test it. Returns: the seconds it took.

    Raises: CalledProcessError or AssertionError if it does not work.
    """
    start = time.monotonic()
    environment = folder / "environment"
    subprocess.run([python, "-m", "venv", environment], check=True)
    install(file, environment)
    use(environment, folder, has_c="manylinux" in file.name)
    return time.monotonic() - start


def install(file: Path, environment: Path) -> None:
    """Install a file with the extras of the container. Raises: CalledProcessError if pip fails."""
    pip = [str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    wanted = read_steps()["RUN"][-1]
    subprocess.run([*pip, f"{wanted} @ {file.as_uri()}"], check=True)


def use(environment: Path, folder: Path, has_c: bool) -> None:
    """Train, evaluate, translate, align and serve in a folder.

    Args:
        has_c: True if the file contains the compiled native decoder.

    Raises: CalledProcessError or AssertionError if a step fails.
    """
    work = folder / "work"
    work.mkdir()
    # Use only the environment: no seq2seq of a checkout, and no compiler if none is needed.
    path = environment / "bin" if has_c else f"{environment / 'bin'}:{os.environ['PATH']}"
    variables = {"PATH": str(path), "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    command = str(environment / "bin" / "seq2seq")
    for words in COMMANDS:
        subprocess.run([command, *words], cwd=work, env=variables, check=True)
    assert (work / "map.png").stat().st_size > 1000
    if has_c:
        subprocess.run([command, "native", "--build"], cwd=work, env=variables, check=True)
    serve_and_ask(read_steps(), work / RUN, variables)


def read_steps() -> dict[str, list[str]]:
    """The words of the last instruction of each kind in the Dockerfile."""
    text = re.sub(r"^#.*\n|\\\n", "", CONTAINER.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = (line.partition(" ") for line in text.splitlines() if line)
    words = ((name, rest.rpartition("CMD ")[2]) for name, _, rest in lines)
    return {
        name: json.loads(rest) if rest.startswith("[") else shlex.split(rest)
        for name, rest in words
    }


def serve_and_ask(steps: dict[str, list[str]], model: Path, variables: dict[str, str]) -> None:
    """Start the service and send one request. The answer may be anything, as the model has learnt
    too little.

    Raises: OSError, HTTPError or AssertionError if the service does not answer.
    """
    assert steps["CMD"] == ["/model"], "the container should serve /model"
    chosen = dict(word.split("=", 1) for word in steps["ENV"])
    own = {"SEQ2SEQ_SERVE_HOST": "127.0.0.1", "SEQ2SEQ_SERVE_PORT": PORT}
    variables = {**variables, **chosen, **own}
    find = {
        word: shutil.which(word, path=variables["PATH"]) or word for word in ("seq2seq", "python")
    }
    words = [find.get(word, word) for word in (*steps["ENTRYPOINT"], str(model))]
    check = [find.get(word, word) for word in steps["HEALTHCHECK"]]
    server = subprocess.Popen(words, env=variables)
    try:
        end = time.monotonic() + PATIENCE
        while subprocess.run(check, env=variables, capture_output=True).returncode:
            assert server.poll() is None and time.monotonic() < end, "the service is not ready"
            time.sleep(0.2)
        body = json.dumps({"q": TEXT, "source": "de", "target": "en"}).encode()
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}/translate", body, kind)
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert isinstance(json.load(answer)["translatedText"], str)
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
