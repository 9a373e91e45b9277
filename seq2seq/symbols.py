"""The public name of `seq2seq.base.symbols`."""

from seq2seq.base.symbols import *  # noqa: F403
