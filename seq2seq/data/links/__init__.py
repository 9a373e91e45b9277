"""Links between the words of a corpus's rows."""
