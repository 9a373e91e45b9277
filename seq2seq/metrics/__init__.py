"""Measure the quality of translations: scores, significance tests, and checks of the texts."""
