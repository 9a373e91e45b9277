"""Tokenizers that were learnt by other programs."""
