"""Cleaning of parallel text: which pairs to leave out of a corpus, and why."""
