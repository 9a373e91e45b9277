"""Files whose text is translated, each format in its room; `formats` lists them."""
