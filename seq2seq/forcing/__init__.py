"""A model led along given translations: how probable it finds each piece, and where it looks."""
