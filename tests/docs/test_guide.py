"""The commands of the guide, run page by page from top to bottom."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.pages_of_docs import CODE, ROOT

# Makes a run of the guide a matter of seconds; appended, so that it overrides what is typed.
SMALL = (
    *("model.dim=16", "model.ffn_dim=16", "model.num_heads=2", "validation.sentences=4"),
    *("trainer.val_check_interval=2", "trainer.max_steps=6", "decode.length_ratio=0.2"),
)
PYTHON = """#!/bin/sh
case " $* " in
*train.py*resume=*) exec "{python}" "$@" {small} trainer.max_steps=8 ;;
*train.py*) exec "{python}" "$@" {small} ;;
*) exec "{python}" "$@" ;;
esac
"""
TORCHRUN = '#!/bin/sh\nexec "{python}" -m torch.distributed.run "$@" {small}\n'
SEQ2SEQ = '#!/bin/sh\nexec "{python}" -m seq2seq "$@"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like the root of a checkout, with programs that train in seconds."""
    for name in ("train.py", "data"):
        (tmp_path / name).symlink_to(ROOT / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("python", PYTHON), ("torchrun", TORCHRUN), ("seq2seq", SEQ2SEQ)):
        script = text.format(python=sys.executable, small=" ".join(SMALL))
        (programs / name).write_text(script, encoding="utf-8")
        (programs / name).chmod(0o755)
    return tmp_path


def type_in(checkout: Path, page: str) -> str:
    """Run all blocks of a page in order. Returns: what they printed."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    script = "\n".join(code for kind, code in CODE.findall(text) if kind == "bash")
    environment = {**os.environ, "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "Traceback" not in ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_the_page_on_own_data_works_as_printed(checkout: Path) -> None:
    printed = type_in(checkout, "own-data.md")
    assert "dry run on the largest batches" in printed and "BLEU" in printed
    assert len((checkout / "my" / "dev.out").read_text(encoding="utf-8").splitlines()) == 500
    assert (checkout / "my" / "map.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_page_on_training_works_as_printed(checkout: Path) -> None:
    type_in(checkout, "training.md")
    runs = checkout / "runs" / "guide"
    named = {path.name for path in (runs / "sweep").iterdir() if path.is_dir()}
    assert named == {f"{n}-transformer-{a}-seed{s}" for n, a, s in SWEEP}
    for name in ("first", "further", "tuned", "kept", "moving", "two", "torchrun"):
        assert (runs / name / "best.ckpt").is_file(), name
    assert (runs / "kept" / "average.ckpt").is_file()
    assert not (runs / "dry" / "last.ckpt").exists()


SWEEP = ((0, "mha", 1), (1, "mha", 2), (2, "gqa", 1), (3, "gqa", 2))
