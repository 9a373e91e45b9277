"""Decoding: searches for the best translations, and the engine that runs them."""

from typing import TYPE_CHECKING

from seq2seq.base.lazy import lazy_imports

if TYPE_CHECKING:
    from seq2seq.decoding.beam import Beam as Beam
    from seq2seq.decoding.decoding_batch import decode as decode
    from seq2seq.decoding.diverse import DiverseBeam as DiverseBeam
    from seq2seq.decoding.engine import Engine as Engine
    from seq2seq.decoding.engine import check_required as check_required
    from seq2seq.decoding.greedy import Greedy as Greedy
    from seq2seq.decoding.request import SentenceRequest as SentenceRequest
    from seq2seq.decoding.sample import Sample as Sample
    from seq2seq.decoding.search import Hypothesis as Hypothesis
    from seq2seq.decoding.search import Search as Search
    from seq2seq.decoding.search import SearchState as SearchState
    from seq2seq.decoding.searches import SEARCHES as SEARCHES
    from seq2seq.decoding.searches import build_engine as build_engine
    from seq2seq.decoding.searches import build_search as build_search
    from seq2seq.decoding.searches import check_coverage as check_coverage
    from seq2seq.decoding.searches import choose_search as choose_search
    from seq2seq.decoding.searches import engine_options as engine_options

__getattr__ = lazy_imports(__name__, __file__)
