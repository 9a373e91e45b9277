"""A process that holds one engine, with threads of its own, and does what it is told by lines of
JSON: {"do": "load" | "prepare" | "go" | "found", ...}. It answers each with one line.
"""

import json
import os
import sys
import time
from typing import Any

from decoding_bench.candidates import BatchSize, parse
from seq2seq.environment import keep_memory, wait_briefly
from seq2seq.errors import Seq2SeqError


def main() -> None:
    candidate = parse(sys.argv[1])
    # What a library prints must not stand between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if candidate.engine in ("ours", "floor"):
        # As in `seq2seq translate`; the others are left as their users find them.
        wait_briefly()
        keep_memory()
    import torch

    torch.set_num_threads(candidate.threads)
    from decoding_bench.engines import ENGINES, Files, Work

    engine: Any = None
    for line in sys.stdin:
        order = json.loads(line)
        answer: Any = {}
        try:
            match order["do"]:
                case "load":
                    files = {regime: Files(*paths) for regime, paths in order["files"].items()}
                    engine = ENGINES[candidate.engine](candidate, files)
                case "prepare":
                    regime, rows, beams, limit, size = order["work"]
                    engine.prepare(Work(regime, rows, beams, limit, size and BatchSize(*size)))
                case "go":
                    start = time.perf_counter()
                    engine.run()
                    answer = {"seconds": time.perf_counter() - start}
                case "found":
                    answer = {"found": engine.found()}
        except (ValueError, ImportError, Seq2SeqError) as error:  # it cannot do this here
            answer = {"error": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
