"""How good translations are: scores, tests of significance, and what a text alone shows."""
