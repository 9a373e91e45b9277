"""What only Linux has is hidden here: the results are the same, or the plain ones that are
promised. Nothing shows that macOS works, but nothing that is known to be missing there is needed.
"""

import ctypes
import os
import re
import resource
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.builders import small_model, translate_copies

from seq2seq.base import environment
from seq2seq.base.symbols import EOS
from seq2seq.comparison import conditions
from seq2seq.data.corpus.ragged_array import FileArray
from seq2seq.decoding import worker_process
from seq2seq.decoding.engine import Engine
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.request import SentenceRequest
from seq2seq.decoding.workers import Workers
from seq2seq.serving import document_process, server
from seq2seq.training import dry_run, trainer
from seq2seq.translation import translator

PACKAGE = Path(environment.__file__).parents[1]
# Where the package uses what macOS lacks. A new use needs a test here, and a line.
ONLY_LINUX = r"/proc/|memfd_create|sched_getaffinity|posix_fadvise|mallopt|malloc_trim|getauxval"
USED_IN = {
    "base/environment.py",
    "comparison/conditions.py",
    "data/corpus/ragged_array.py",
    "decoding/native/build.py",  # tests/decoding/native/test_native_build.py
    "decoding/native/prebuilt.py",  # the same
    "decoding/worker_process.py",
    "serving/document_process.py",
    "serving/server.py",
    "training/dry_run.py",
    "training/trainer.py",
}


@pytest.fixture
def no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide /proc from this process."""
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda p: not is_of_proc(p) and exists(p))
    for name in ("exists", "is_file"):
        real = getattr(Path, name)
        monkeypatch.setattr(Path, name, lambda p, real=real: not is_of_proc(p) and real(p))
    read = Path.read_text

    def read_text(path: Path, *arguments: Any, **options: Any) -> str:
        if is_of_proc(path):
            raise FileNotFoundError(path)
        return read(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", read_text)


def is_of_proc(path: Any) -> bool:
    return str(path).startswith("/proc")


def test_each_use_of_what_only_linux_has_is_known() -> None:
    sources = PACKAGE.rglob("*.py")
    found = {str(each.relative_to(PACKAGE)) for each in sources if mentions(each, ONLY_LINUX)}
    assert found == USED_IN


def mentions(path: Path, pattern: str) -> bool:
    return re.search(pattern, path.read_text(encoding="utf-8")) is not None


def test_all_cores_count_where_a_process_is_not_bound_to_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert environment.usable_cores() == 7


def test_another_c_library_keeps_memory_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    environment.keep_memory()
    environment.return_memory()


def test_rows_are_read_without_reading_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.arange(12, dtype=np.int32).tofile(tmp_path / "x")
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    array = FileArray(tmp_path / "x", np.int32)
    array.read_ahead(3, 7)
    assert array[3:7].tolist() == [3, 4, 5, 6]


def test_workers_that_map_no_memory_of_linux_translate_alike(
    no_proc: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of a server get the model through a file; here it has no memory and no /proc."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(worker_process, "sys", SimpleNamespace(platform="darwin"))
    assert worker_process.choose_context().get_start_method() == "forkserver"
    build = partial(Engine, small_model("transformer"), Greedy())
    sources = [torch.randint(4, 13, (i % 7 + 1,)).tolist() for i in range(20)]
    asked = [SentenceRequest([*source, EOS]) for source in sources]
    workers = Workers(build(), build, 2)
    try:
        found = [[each.ids for each in answer] for answer in translate_copies(workers, asked)]
        assert len(workers._workers) == 2
    finally:
        workers.close()
    expected = translate_copies(build(), asked)
    assert found == [[each.ids for each in answer] for answer in expected]


def test_processes_that_share_a_file_read_all_of_it(
    no_proc: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    factory = worker_process.SharedFactory(partial(torch.add, torch.arange(1000), 1))
    _, (load, handle) = factory.__reduce__()
    for _ in range(2):
        copy = SimpleNamespace(detach=lambda: os.dup(factory._file or 0))
        assert torch.equal(load(copy), torch.arange(1, 1001))
    assert handle is not None
    factory.close()


def test_the_load_of_the_machine_is_zero_where_it_is_unknown(no_proc: None) -> None:
    assert conditions.busy_seconds() == 0
    conditions.await_idle(patience=0)
    assert isinstance(conditions.processor(), str)


def test_memory_is_not_limited_where_it_is_unknown(no_proc: None) -> None:
    kinds = resource.RLIMIT_DATA, resource.RLIMIT_AS
    before = [resource.getrlimit(kind) for kind in kinds]
    assert dry_run.available_memory() is None and server.resident_memory() == 0
    document_process.limit_own_memory(b"")
    with dry_run.limit_memory():
        assert [resource.getrlimit(kind) for kind in kinds] == before


def test_the_peak_of_memory_is_in_bytes_on_macos_and_in_kilobytes_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: Any = SimpleNamespace(accelerator="cpu", precision="32-true")
    timer: Any = SimpleNamespace(tokens=1.0, seconds=1.0)
    told = []
    for platform, peak in (("linux", 2**20), ("darwin", 2**30)):
        used = SimpleNamespace(ru_maxrss=peak)
        monkeypatch.setattr(dry_run, "sys", SimpleNamespace(platform=platform))
        monkeypatch.setattr(resource, "getrusage", lambda _, used=used: used)
        monkeypatch.setattr(dry_run, "available_memory", lambda: None)
        told.append(dry_run.describe_cost(options, timer, 1.0))
    assert told[0] == told[1]


def test_bfloat16_is_not_chosen_where_the_processor_is_unknown(
    no_proc: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "CPU_INFO", Path("/proc/cpuinfo"))
    is_fast, reason = trainer.find_cpu_bfloat16(trainer.read_cpu_info())
    assert not is_fast and "does not say" in reason


def test_an_emulated_processor_has_no_instructions_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose file an emulator of programs shows."""
    monkeypatch.setattr(trainer, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    for text, is_fast in (("flags\t: sse avx512_bf16", False), ("Features\t: fp bf16", True)):
        trainer.CPU_INFO.write_text(f"processor\t: 0\n{text}\n")
        assert trainer.find_cpu_bfloat16(trainer.read_cpu_info())[0] is is_fast


def test_only_linux_starts_processes_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(translator, "usable_cores", lambda: 2)
    model = small_model("transformer")
    options: Any = {"rows": 8, "workers": "auto", "precision": "float32"}
    one = SimpleNamespace(
        device=torch.device("cpu"),
        model=model,
        config={"decode": {}},
        vocabulary=SimpleNamespace(guide=None),
        convert=lambda _: model,
    )
    for workers, kind in (("auto", Engine), (2, Workers)):
        made = translator.Translator.engine(one, Greedy(), **{**options, "workers": workers})  # type: ignore[arg-type]
        assert type(made) is kind
