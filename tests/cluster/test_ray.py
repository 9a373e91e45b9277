"""Translating files on a Ray cluster in namespaces of its own: `-m cluster`."""

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.commands import SENTENCES
from helpers.tiny_runs import demo_run

ALONE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
LINES, SHARDS = 1200, 24


def can_be_alone() -> bool:
    """True if this user may have a network of its own, in which nobody else reaches Ray."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs ray: pip install ray"),
    pytest.mark.skipif(
        not can_be_alone(), reason="needs unshare and ip, and the right to use them"
    ),
]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, shift in (("a.txt", 0), ("b.txt", 5)):
        lines = [SENTENCES[(i * i + shift) % len(SENTENCES)] + "\n" for i in range(LINES // 2)]
        (folder / name).write_text("".join(lines), encoding="utf-8")
    return folder


def translate(base: Path, texts: Path, output: str, *more: str) -> subprocess.Popen[str]:
    model = os.path.relpath(demo_run(base), texts.parent)
    command = [sys.executable, "-m", "seq2seq", "translate-files", model, "--quiet"]
    command += [texts.name, output, *more]
    command += ["--shard-lines", str(LINES // SHARDS), "--max-length", "20"]
    network = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    return subprocess.Popen(
        [*ALONE, *network, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=texts.parent,
    )


def ended(process: subprocess.Popen[str]) -> str:
    """Wait until a process has succeeded. Returns: its messages."""
    out, said = process.communicate(timeout=240)
    assert (process.returncode, out) == (0, ""), said
    return said


def wait_for_shards(output: Path, count: int) -> None:
    end = time.monotonic() + 120
    while len(list(output.rglob("*.gz"))) < count:
        assert time.monotonic() < end
        time.sleep(0.05)


def actors(pid: int) -> list[int]:
    """Ids of the translating processes below a process."""
    found = []
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        name = Path(f"/proc/{child}/cmdline").read_bytes()
        found += [child] * name.startswith(b"ray::ShardTranslator") + actors(child)
    return found


def joined(output: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in output.glob("*.txt")}


def test_killed_actors_and_a_killed_cluster_change_nothing(base: Path, texts: Path) -> None:
    output = texts.parent / "killed"
    ended(translate(base, texts, "alone"))

    cluster = translate(base, texts, "killed", "--ray", "local")
    wait_for_shards(output, 3)
    cluster.kill()  # the command, and with it every process of the cluster
    cluster.communicate()
    done = len(list(output.rglob("*.gz")))
    assert 3 <= done < SHARDS

    cluster = translate(base, texts, "killed", "--ray", "local")
    wait_for_shards(output, done + 1)
    killed = actors(cluster.pid)
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert f"in {SHARDS - done} shards translated" in ended(cluster)
    assert joined(output) == joined(texts.parent / "alone")


POISON = """
import os, signal
from pathlib import Path
replace = os.replace

def poisoned(source, target):
    if Path(target).parent.name == "a.txt" and Path(target).name.startswith("0000000051."):
        with open(Path(__file__).with_name("tries"), "a") as tries:
            tries.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = poisoned
"""


def test_a_shard_that_kills_its_actors_is_given_up_and_the_others_continue(
    base: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = texts.parent / "poisoned"
    (texts.parent / "poison").mkdir()
    (texts.parent / "poison" / "sitecustomize.py").write_text(POISON)
    monkeypatch.setenv("PYTHONPATH", str(texts.parent / "poison"))
    process = translate(base, texts, "poisoned", "--ray", "local")
    out, said = process.communicate(timeout=240)
    assert (process.returncode, out) == (2, "") and (
        texts.parent / "poison" / "tries"
    ).read_text() == "xxx"
    *others, summary, error = said.splitlines()
    assert all(line.startswith("warning: cut off at the length limit") for line in others)
    assert f"in {SHARDS - 1} shards translated" in summary
    assert error.startswith("error: 1 shard given up") and "in/a.txt, line 51. " in error
    assert len(list(output.rglob("*.gz"))) == SHARDS - 1 and list(joined(output)) == ["b.txt"]


@pytest.mark.parametrize("address", ["127.0.0.1:9", "127.0.0.1:99999", "nowhere:1", "auto"])
def test_a_missing_cluster_is_reported(base: Path, texts: Path, address: str) -> None:
    process = translate(base, texts, "none", "--ray", address)
    _, said = process.communicate(timeout=240)
    (line,) = said.splitlines()
    assert process.returncode == 2 and line.startswith(f"error: --ray {address}: no cluster")
