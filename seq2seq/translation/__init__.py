"""Texts to translate: the request, its sentences, and their translations joined to a result."""
