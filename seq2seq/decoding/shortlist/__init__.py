"""Shortlists: for each source piece, the target pieces that may translate it."""

from seq2seq.decoding.shortlist.lists import Shortlist

__all__ = ["Shortlist"]
