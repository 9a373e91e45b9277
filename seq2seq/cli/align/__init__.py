"""`seq2seq align`."""
