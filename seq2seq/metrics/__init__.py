"""The quality of translations: scores, significance tests, and checks of the text itself."""
