"""Runs over several nodes, all of them on this machine: `pytest -m cluster`."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from helpers.commands import SENTENCES
from helpers.tiny_runs import demo_run, train_command, train_tiny, weights

pytestmark = pytest.mark.cluster

REPOSITORY = Path(__file__).resolve().parents[2]
SLURM = REPOSITORY / "scripts" / "slurm"
# As in tests/helpers/compared_runs.py, where they are explained.
OPTIONS = ("model.dropout=0", "optimizer.eps=1e-3", "data.max_tokens=192", "checkpoint.every=10")
SHORT = (*OPTIONS, "trainer.max_steps=10", "trainer.val_check_interval=5")
LONG = (*OPTIONS, "trainer.max_steps=300", "trainer.val_check_interval=150")
TWO_NODES = ("trainer=ddp", "trainer.num_nodes=2", "trainer.devices=1", "trainer.accelerator=cpu")
KILLS, REQUEUES = 5, 3


def torchrun(base: Path, folder: Path, *options: str) -> list[subprocess.Popen[bytes]]:
    """The agents of two nodes, which start a worker each, and restart it when one is lost."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _, *command = train_command(base, folder, *options, *TWO_NODES, "resume=auto")
    agent = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    agent += ["--max-restarts=50", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"]
    agent += ["--rdzv-id=test", "--local-addr=127.0.0.1", "--monitor-interval=0.5"]
    # As in docs/scale.md: workers that start again must not meet in the store of those before.
    alone = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with folder.with_suffix(".log").open("wb") as log:
        return [
            subprocess.Popen([*agent, *command], stdout=log, stderr=log, env=alone)
            for _ in range(2)
        ]


def wait_all(agents: list[subprocess.Popen[bytes]], folder: Path) -> None:
    try:
        codes = [agent.wait(timeout=600) for agent in agents]
    finally:
        for agent in agents:
            agent.terminate()
    assert codes == [0, 0], folder.with_suffix(".log").read_text(errors="replace")[-3000:]


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def next_checkpoint(folder: Path, before: int) -> int:
    """Wait until a run has written last.ckpt again. Returns: when it was written."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        path = folder / "last.ckpt"
        if path.is_file() and (now := path.stat().st_mtime_ns) != before:
            return now
        assert not (folder / "result.json").is_file(), "it ended too soon to be interrupted"
        time.sleep(0.02)
    raise AssertionError("no checkpoint in five minutes")


def assert_equal(one: Path, other: Path) -> None:
    """The weights of two runs are equal to the bit."""
    expected = weights(other)
    for name, value in weights(one).items():
        assert torch.equal(value, expected[name]), name


@pytest.fixture(scope="module")
def two_nodes(base: Path) -> Callable[[tuple[str, ...]], Path]:
    """The run of two nodes under torchrun that nothing interrupted, by options."""
    known: dict[tuple[str, ...], Path] = {}

    def trained(options: tuple[str, ...]) -> Path:
        if options not in known:
            folder = known[options] = base / f"torchrun-{len(known)}"
            wait_all(torchrun(base, folder, *options), folder)
        return known[options]

    return trained


def test_two_nodes_learn_the_same_as_one_process(
    base: Path, two_nodes: Callable[[tuple[str, ...]], Path]
) -> None:
    expected = weights(train_tiny(base, *SHORT))
    for name, value in weights(two_nodes(SHORT)).items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=0)


def test_workers_that_are_killed_change_nothing(
    base: Path, two_nodes: Callable[[tuple[str, ...]], Path]
) -> None:
    folder, written = base / "killed", 0
    expected = two_nodes(LONG)
    agents = torchrun(base, folder, *LONG)
    for kill in range(KILLS):
        written = next_checkpoint(folder, written)
        os.kill(children(agents[kill % 2].pid)[-1], signal.SIGKILL)
    wait_all(agents, folder)
    assert_equal(folder, expected)


@pytest.fixture(scope="module")
def slurm(base: Path) -> Iterator[dict[str, str]]:
    """The environment for commands of a Slurm of two nodes, on loopback."""
    if not shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin"):
        pytest.skip("needs Slurm: apt-get install slurm-wlm munge")
    folder, script = base / "slurm", str(SLURM / "local_cluster.sh")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    places = {"SLURM_CONF": f"{folder}/slurm.conf", "MASTER_ADDR": "127.0.0.1", "PATH": path}
    subprocess.run([script, "start", str(folder)], check=True, timeout=60)
    yield {**os.environ, **places, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([script, "stop", str(folder)], check=True, timeout=60)


def queued(slurm: dict[str, str], folder: Path, script: str, *typed: str, **more: str) -> str:
    """Queue a job that logs beside `folder`. Returns: its id."""
    options = [f"--{name}={value}" for name, value in more.items()]
    command = ["sbatch", "--parsable", f"--output={folder}.%j.out", *options, str(SLURM / script)]
    ended = subprocess.run(
        [*command, *typed], env=slurm, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, timeout=60
    )
    return ended.stdout.strip()


def scontrol(slurm: dict[str, str], *words: str) -> str:
    told = subprocess.run(words, env=slurm, stdout=subprocess.PIPE, text=True, timeout=60)
    return told.stdout


def wait_for_job(slurm: dict[str, str], job: str, logs: Path) -> None:
    """Wait until a job has succeeded with all its tasks."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        states = [
            word.removeprefix("JobState=")
            for word in scontrol(slurm, "scontrol", "show", "job", job).split()
            if word.startswith("JobState=")
        ]
        if states and set(states) == {"COMPLETED"}:
            return
        said = "".join(p.read_text(errors="replace") for p in logs.parent.glob(logs.name + ".*"))
        assert not {"FAILED", "CANCELLED", "TIMEOUT"} & set(states), f"{states}: {said[-3000:]}"
        time.sleep(0.2)
    raise AssertionError(f"{states}: {said[-3000:]}")


def test_two_requeued_nodes_of_slurm_learn_the_same_as_under_torchrun(
    base: Path, slurm: dict[str, str], two_nodes: Callable[[tuple[str, ...]], Path]
) -> None:
    expected = two_nodes(LONG)
    folder, written = base / "queued", 0
    _, _, *options = train_command(base, folder, *LONG)
    job = queued(slurm, folder, "many_nodes.sbatch", *options, "trainer.accelerator=cpu")
    # The first two by the signals of a scheduler, the last by force.
    signals = [["scancel", "--signal=TERM", job], ["scancel", "--signal=USR1", job]]
    for words in [*signals, ["scontrol", "requeue", job]][:REQUEUES]:
        written = next_checkpoint(folder, written)
        scontrol(slurm, *words)
        if words[0] == "scancel":  # a last.ckpt of its own
            written = next_checkpoint(folder, written)
    wait_for_job(slurm, job, folder)
    assert f"Restarts={REQUEUES}" in scontrol(slurm, "scontrol", "show", "job", job)
    assert_equal(folder, expected)
    said = "".join(path.read_text() for path in base.glob("queued.*.out"))
    assert "stopped by SIGTERM" in said and "stopped by SIGUSR1" in said


def test_one_node_of_slurm_ends_with_the_code_of_its_signal(
    base: Path, slurm: dict[str, str]
) -> None:
    folder = base / "one-node"
    expected = train_tiny(base, *LONG)
    _, _, *options = train_command(base, folder, *LONG)
    job = queued(slurm, folder, "one_node.sbatch", *options)
    next_checkpoint(folder, 0)
    scontrol(slurm, "scancel", "--signal=TERM", job)
    wait_for_job(slurm, job, folder)
    shown = scontrol(slurm, "scontrol", "show", "job", job)
    assert "Restarts=1" in shown
    assert "Exited with exit code 143" in "".join(p.read_text() for p in base.glob("one-node.*"))
    assert_equal(folder, expected)


def test_the_tasks_of_an_array_translate_a_folder(base: Path, slurm: dict[str, str]) -> None:
    run, texts, output = demo_run(base), base / "in", base / "out"
    texts.mkdir()
    for name in ("a", "b"):
        (texts / name).write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    typed = [str(run), str(texts), str(output), "--shard-lines", "5"]
    job = queued(slurm, base / "array", "translate_array.sbatch", *typed, array="1-2")
    wait_for_job(slurm, job, base / "array")
    logs = sorted(path.read_text() for path in base.glob("array.*"))
    assert len(logs) == 2 and all("in 3 shards translated" in log for log in logs)
    command = [sys.executable, "-m", "seq2seq", "translate-files", *typed, "--merge"]
    subprocess.run(command, check=True, timeout=60, cwd=REPOSITORY)
    assert (output / "a").read_text() == (output / "b").read_text() != ""


def test_two_clusters_on_one_machine_stay_separate(slurm: dict[str, str], tmp_path: Path) -> None:
    script, other = str(SLURM / "local_cluster.sh"), tmp_path / "other"
    subprocess.run([script, "start", str(other)], check=True, timeout=60)
    try:
        both = (slurm, {**slurm, "SLURM_CONF": f"{other}/slurm.conf"})
        nodes = [scontrol(each, "sinfo", "--noheader", "--format=%D %T").split() for each in both]
        folders = [scontrol(each, "scontrol", "show", "config") for each in both]
    finally:
        subprocess.run([script, "stop", str(other)], check=True, timeout=60)
    assert nodes == [["2", "idle"]] * 2
    assert f"{other}/state" in folders[1] and f"{other}/state" not in folders[0]
