"""Text to batches: reading, tokenizing, encoding once, and forming batches of like lengths."""
