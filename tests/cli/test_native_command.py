"""`seq2seq native` says what there is for this machine."""

from pathlib import Path

import pytest
from helpers.commands import Command

from seq2seq.decoding.native import prebuilt


def test_a_compiled_decoder_of_the_package_is_named(
    seq2seq: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(prebuilt, "FOLDER", tmp_path)
    assert b"not compiled yet" in seq2seq("native").out
    (tmp_path / "x86-64-v3.so").touch()
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr(prebuilt, "processor_flags", lambda: {*prebuilt.V3.split()})
    ended = seq2seq("native")
    assert ended.code == 0 and b"came with seq2seq" in ended.out and b"not comp" not in ended.out
