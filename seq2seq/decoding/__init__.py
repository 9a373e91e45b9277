"""From a model to translations: searches, and the engine that runs them."""

from seq2seq.decoding.answering import Answering
from seq2seq.decoding.beam import Beam
from seq2seq.decoding.decoding_batch import decode
from seq2seq.decoding.engine import Engine, Request
from seq2seq.decoding.greedy import Greedy
from seq2seq.decoding.options import (
    ENGINE_OPTIONS,
    SEARCHES,
    build_engine,
    build_search,
    check_coverage,
    engine_options,
)
from seq2seq.decoding.sample import Sample
from seq2seq.decoding.search import CandidateRequest, Hypothesis, Search, SearchState, StepChoice
from seq2seq.decoding.stats import Stats

__all__ = [
    "ENGINE_OPTIONS",
    "SEARCHES",
    "Answering",
    "StepChoice",
    "CandidateRequest",
    "Beam",
    "Engine",
    "SearchState",
    "Greedy",
    "Hypothesis",
    "Request",
    "Sample",
    "Search",
    "Stats",
    "build_engine",
    "build_search",
    "check_coverage",
    "decode",
    "engine_options",
]
