"""The earlier name of `seq2seq.text.tokenization.tokenizer`."""

from seq2seq.text.tokenization.tokenizer import *  # noqa: F403
