"""How good translations are: scores, significance tests, and checks of the text itself."""
