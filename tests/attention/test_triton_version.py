"""The message where Triton is missing or too old."""

import pytest

from seq2seq.functional.triton import launch


@pytest.mark.parametrize("found", ["3.6.0", "3.10.0", "4.0.0+git1"])
def test_a_new_triton_is_enough(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "version", lambda name: found)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert launch.lacks_triton() is None


@pytest.mark.parametrize(
    ("found", "interpreted", "oldest"),
    [("3.5.1", "0", "3.6"), (None, "0", "3.6"), ("3.6.0", "1", "3.7"), ("2.3.1", "1", "3.7")],
)
def test_an_old_or_missing_triton_is_reported(
    found: str | None, interpreted: str, oldest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if found is None:
            raise launch.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(launch, "version", version)
    monkeypatch.setenv("TRITON_INTERPRET", interpreted)
    told = launch.lacks_triton()
    assert told is not None
    assert f"{oldest} or newer, for Linux (found: {found or 'none'}): pip install" in told
