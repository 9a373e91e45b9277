"""Word alignment: links, how to read them from attention, and how to choose the reading."""
