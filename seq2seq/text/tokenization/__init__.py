"""Tokenizers, which turn text into piece ids and back: learnt here, or read from other programs."""
