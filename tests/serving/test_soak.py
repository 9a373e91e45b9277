"""A soak: many clients, some of them hostile or gone, and workers that are killed at any moment."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.servers import ServerProcess, children, request_bytes
from helpers.tiny_runs import demo_lines

pytestmark = pytest.mark.serving

# `SOAK=1 pytest -m serving tests/serving/test_soak.py` is the long form, of 30,000 requests.
LONG = os.environ.get("SOAK") == "1"
REQUESTS, CLIENTS, LEAVERS, KILLS = (30_000, 64, 1_000, 20) if LONG else (1_500, 32, 100, 4)
WARM = REQUESTS // 6  # requests after which memory is compared with that of the end
TEXTS = demo_lines("test", "de", 60)
HOSTILE: list[tuple[Any, set[int]]] = [
    ({"text": "%" + "0" * 19_999, "deadline": 0.5}, {200, 429, 504}),
    ({"text": "a." * 10_000, "deadline": 0.5}, {200, 429, 504}),
    ({"text": " ".join(TEXTS * 6)[:20_000], "deadline": 0.5}, {200, 429, 504}),
    ({"text": " ".join(TEXTS[:20]), "nbest": 10, "links": True, "deadline": 0.5}, {200, 429, 504}),
    ({"text": "a" * 20_001}, {413}),
    ({"text": 1}, {400}),
    ({"nonsense": []}, {400}),
]


def workers_of(server: ServerProcess) -> list[int]:
    """The worker processes: what the server that forks them has started."""
    return [i for child in children(server.process.pid) for i in children(child)]


def resident(server: ServerProcess) -> int:
    """Bytes of the memory of the server's own process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def leave(server: ServerProcess, generator: random.Random) -> None:
    connection = server.send(request_bytes(" ".join(generator.sample(TEXTS, 5))))
    time.sleep(generator.random() * 0.02)
    connection.close()


def check_empty(server: ServerProcess) -> None:
    for name in ("seq2seq_queue_pieces", "seq2seq_rows", "seq2seq_pages"):
        server.wait_for(lambda name=name: server.gauge(name) == 0)


def expected_texts(path: Path) -> dict[str, str]:
    """What the command line answers."""
    command = [sys.executable, "-m", "seq2seq", "translate", str(path), "--keep", "placeholders"]
    ended = subprocess.run(
        command, input="\n".join(TEXTS), capture_output=True, text=True, check=True
    )
    return dict(zip(TEXTS, ended.stdout.splitlines(), strict=True))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_soak(trained: Path, workers: int) -> None:
    expected = expected_texts(trained)
    server = ServerProcess(trained, "--workers", workers, "--deadline", 120).ready()
    codes: Counter[int] = Counter()
    wrong: list[Any] = []
    memory: list[int] = []
    turns = iter(range(REQUESTS))
    lock = threading.Lock()

    def work(seed: int) -> None:
        generator = random.Random(seed)
        while True:
            with lock:
                turn = next(turns, None)
                if turn == WARM:
                    memory.append(resident(server))
            if turn is None:
                return
            if turn % (REQUESTS // LEAVERS) == 1:
                leave(server, generator)
            if turn % 20 == 7:
                entry, allowed = generator.choice(HOSTILE)
                code, _ = server.ask("POST", "/v1/translate", entry)
                codes[code] += 1
                if code not in allowed:
                    wrong.append((turn, code, str(entry)[:80]))
                continue
            text = generator.choice(TEXTS)
            try:
                code, answer = server.translate(text)
            except (OSError, json.JSONDecodeError) as error:
                wrong.append((turn, repr(error)))
                continue
            codes[code] += 1
            if code != 200 or answer["translatedText"] != expected[text]:
                wrong.append((turn, code, answer))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(CLIENTS)]
    try:
        for thread in threads:
            thread.start()
        generator = random.Random(0)
        for _ in range(KILLS if workers > 1 else 0):
            time.sleep(generator.random() * (10 if LONG else 1))
            if processes := workers_of(server):
                os.kill(generator.choice(processes), signal.SIGKILL)
            # Requests are answered all the same, so it is ready.
            assert server.ask("GET", "/health/ready")[0] == 200
        for thread in threads:
            thread.join()
        assert not wrong, (wrong[:5], codes)
        assert codes[200] > REQUESTS // 2
        check_empty(server)
        if LONG:
            assert resident(server) <= 1.05 * memory[0]
        # What was accepted is answered after SIGTERM, and nothing stays.
        processes = children(server.process.pid)
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.sendall(request_bytes(" ".join(TEXTS)))
        server.wait_for(lambda: server.gauge("seq2seq_queue_pieces") > 0)
        server.process.send_signal(signal.SIGTERM)
        with connection:
            assert b" 200 " in connection.recv(65_536).split(b"\r\n")[0]
        assert server.wait() == 0
        # The processes that fork and track end when they see that the server has.
        until = time.monotonic() + 60
        while any(Path(f"/proc/{i}").exists() for i in processes):
            assert time.monotonic() < until, processes
            time.sleep(0.05)
        assert not any(text in line for line in server.log for text in TEXTS)
    finally:
        server.process.kill()
        server.wait()
