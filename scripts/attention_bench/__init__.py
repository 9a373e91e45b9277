"""Growth of time and memory with length, for each attention mechanism."""
