"""Text: languages, tokenization, and documents."""
