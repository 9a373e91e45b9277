"""The search in NumPy beside the one for slots, with tiny sizes."""

import benchmark_search
import pytest


def test_both_searches_are_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["benchmark_search.py", "--sentences", "2", "--beams", "2", "--rounds", "1"]
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    benchmark_search.main()
    numpy, slots = capsys.readouterr().out.splitlines()
    assert numpy.startswith("NumPy: ") and slots.startswith("slots in torch: ")
