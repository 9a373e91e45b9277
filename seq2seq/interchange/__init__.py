"""Import models from other programs, and export models for them."""
