"""How good a translation is, which word it took from where, and a picture of that."""
