from pathlib import Path

import pytest
from helpers.tiny_runs import demo_run

from seq2seq.translation.translator import Translator


@pytest.fixture(scope="session")
def translator(base: Path) -> Translator:
    return Translator.load(demo_run(base), device="cpu")
