"""Requirements of a translation, and the guides that make a search satisfy them."""
