"""How the time and the memory of each attention mechanism grow with length."""
