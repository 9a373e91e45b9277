"""Models in the formats of other engines."""
