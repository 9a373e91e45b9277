"""A process that holds one engine, with its threads, and follows orders, one JSON object per line:
{"do": "load" | "prepare" | "go" | "hypotheses", ...}. It answers each with one line.
"""

import json
import os
import sys
import time
from typing import Any

from decoding_bench.candidates import BatchSize, parse
from seq2seq.base.environment import keep_memory, limit_thread_spinning
from seq2seq.base.errors import Seq2SeqError


def main() -> None:
    candidate = parse(sys.argv[1])
    # Output of libraries must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if candidate.engine == "torch":
        os.environ["SEQ2SEQ_NATIVE"] = "0"
    if candidate.engine in ("ours", "torch", "floor"):
        # As in `seq2seq translate`; other engines keep their defaults.
        limit_thread_spinning()
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
                case "hypotheses":
                    answer = {"hypotheses": engine.hypotheses()}
        except (ValueError, ImportError, Seq2SeqError) as error:  # not possible here
            answer = {"error": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
