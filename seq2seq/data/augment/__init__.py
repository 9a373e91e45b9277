"""Pairs that change from pass to pass."""
