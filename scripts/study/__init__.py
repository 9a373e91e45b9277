"""The zoo on tasks of symbols: strings, cells, scores and the page."""
