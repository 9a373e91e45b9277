"""File formats whose text can be translated; `formats` lists them."""
