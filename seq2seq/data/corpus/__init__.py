"""A corpus as piece ids on disk."""
