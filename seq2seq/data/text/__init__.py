"""Lines and pairs of text, read from files."""
