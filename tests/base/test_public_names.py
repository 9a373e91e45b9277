"""Modules that plug-ins may import by an earlier name."""

import importlib

import pytest


@pytest.mark.parametrize(
    ("public", "actual", "name"),
    [
        ("seq2seq.errors", "seq2seq.base.errors", "Seq2SeqError"),
        ("seq2seq.registry", "seq2seq.base.registry", "check_range"),
        ("seq2seq.symbols", "seq2seq.base.symbols", "NAMES"),
        ("seq2seq.tokenization.tokenizer", "seq2seq.text.tokenization.tokenizer", "Tokenizer"),
        ("seq2seq.tokenization.words", "seq2seq.text.tokenization.words", "MostFrequent"),
    ],
)
def test_an_earlier_name_leads_to_the_same_object(public: str, actual: str, name: str) -> None:
    modules = [importlib.import_module(module) for module in (public, actual)]
    assert getattr(modules[0], name) is getattr(modules[1], name)
