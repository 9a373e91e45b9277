"""The message where Triton is missing or too old."""

import pytest

from seq2seq.functional.triton import launch


@pytest.mark.parametrize("found", ["3.6.0", "3.10.0", "4.0.0+git1"])
def test_a_new_triton_is_enough(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "version", lambda name: found)
    assert launch.lacks_triton() is None


@pytest.mark.parametrize("found", ["3.5.1", "2.3.1", None])
def test_an_old_or_missing_triton_is_reported(
    found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if found is None:
            raise launch.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(launch, "version", version)
    told = launch.lacks_triton()
    assert told is not None
    assert f"3.6 or newer, for Linux (found: {found or 'none'}): pip install" in told
