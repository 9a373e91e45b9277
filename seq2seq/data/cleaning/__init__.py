"""Cleaning of parallel text: which pairs are left out of a corpus, and why."""
