"""Documents: the sentences of a text or of HTML, and the text again with their translations."""
