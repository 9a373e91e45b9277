"""Time the search of a decoding step alone: the NumPy version, and the one for slots in torch.

    python scripts/benchmark_search.py                   # 64 sentences, 5 beams

Both choose from the same candidates, without a model, on one thread. Prints the minimum of the
rounds, which take turns.
"""

import argparse
import time
from collections.abc import Callable

import torch

from seq2seq.decoding import Search, build_search
from seq2seq.decoding.device.batch import slot_search
from seq2seq.decoding.device.buffers import Buffers
from seq2seq.decoding.device.replay import upload
from seq2seq.models.candidates import Candidates

CPU, STEPS, VOCABULARY, LENGTH = torch.device("cpu"), 40, 8000, 30


def random_candidates(rows: int, count: int, step: int) -> Candidates:
    generator = torch.Generator().manual_seed(step)
    logp = -5 * torch.rand(rows, count, generator=generator)
    # Distinct tokens of each row, none of which ends a hypothesis.
    tokens = torch.rand(rows, VOCABULARY, generator=generator).topk(count).indices.clamp(min=4)
    return Candidates(logp.sort(1, descending=True).values, tokens)


def in_numpy(search: Search, sentences: int, steps: list[Candidates]) -> float:
    state = search.start(torch.full((sentences,), LENGTH))
    start = time.perf_counter()
    for candidates in steps:
        state.request()
        state.advance(*candidates)
    return time.perf_counter() - start


@torch.no_grad()
def in_slots(search: Search, sentences: int, steps: list[Candidates]) -> float:
    state = search.start(torch.full((sentences,), LENGTH))
    buffers = Buffers(search.beams, CPU)
    choices = slot_search(search, buffers)
    size = choices.size_for(state)._replace(slots=sentences, room=2 * STEPS)
    buffers.tensors = buffers.allocate(size)
    values = {name: upload(x, CPU) for name, x in choices.first_values(state).items()}
    buffers.put(torch.arange(sentences), values)
    start = time.perf_counter()
    for candidates in steps:
        choices.request(size)
        choices.advance(candidates)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--beams", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    search = build_search({"name": "beam", "beam_size": options.beams, "length_extra": 2 * STEPS})
    rows = options.sentences * options.beams
    steps = [random_candidates(rows, search.candidates, step) for step in range(STEPS)]
    versions: dict[str, Callable[..., float]] = {"NumPy": in_numpy, "slots in torch": in_slots}
    times = {name: [] for name in versions}  # type: dict[str, list[float]]
    for _ in range(options.rounds):
        for name, run in versions.items():
            times[name].append(run(search, options.sentences, steps) / STEPS)
    for name, each in times.items():
        print(f"{name}: {1000 * min(each):.2f} ms a step")


if __name__ == "__main__":
    main()
