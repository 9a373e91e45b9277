"""Batches, and the order of an epoch."""
