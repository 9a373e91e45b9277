"""Training pairs that change from pass to pass."""
