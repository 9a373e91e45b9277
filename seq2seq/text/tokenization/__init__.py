"""Text to piece ids and back: tokenizers that are learnt here, and those of other programs."""
