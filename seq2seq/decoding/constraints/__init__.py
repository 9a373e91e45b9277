"""Requirements of a translation: what is asked, and how a search is made to keep to it."""
