"""The earlier name of `seq2seq.text.tokenization.words`."""

from seq2seq.text.tokenization.words import *  # noqa: F403
