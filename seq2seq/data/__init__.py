"""From text to batches: read, tokenize, encode once, and batch sentences of similar length."""
