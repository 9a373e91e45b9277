"""`seq2seq evaluate`."""
