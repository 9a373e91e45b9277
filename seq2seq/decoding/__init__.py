"""Decoding: searches for the best translations, and the engine that runs them."""

from typing import TYPE_CHECKING

from seq2seq.base.lazy import lazy_imports

if TYPE_CHECKING:
    from seq2seq.decoding.beam import Beam
    from seq2seq.decoding.decoding_batch import decode
    from seq2seq.decoding.diverse import DiverseBeam
    from seq2seq.decoding.engine import Engine, check_required
    from seq2seq.decoding.greedy import Greedy
    from seq2seq.decoding.request import SentenceRequest
    from seq2seq.decoding.sample import Sample
    from seq2seq.decoding.search import Hypothesis, Search, SearchState, StepChoice
    from seq2seq.decoding.searches import (
        SEARCHES,
        build_engine,
        build_search,
        check_coverage,
        choose_search,
        engine_options,
    )

__all__ = [
    "SEARCHES",
    "Beam",
    "DiverseBeam",
    "Engine",
    "Greedy",
    "Hypothesis",
    "Sample",
    "Search",
    "SearchState",
    "SentenceRequest",
    "StepChoice",
    "build_engine",
    "build_search",
    "check_coverage",
    "check_required",
    "choose_search",
    "decode",
    "engine_options",
]

__getattr__ = lazy_imports(__name__, __file__)
