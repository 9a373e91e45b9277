"""The name that plug-ins written for 0.1 import: the package is `seq2seq.text.tokenization` now."""
