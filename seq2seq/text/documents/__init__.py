"""Documents: finds the sentences of a text or a file, and puts translations in their place."""
