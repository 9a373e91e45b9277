import pytest
from helpers.small_corpora import small_tokenizer

from seq2seq.text.tokenization.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return small_tokenizer()
