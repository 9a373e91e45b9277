"""The public name of `seq2seq.base.registry`."""

from seq2seq.base.registry import *  # noqa: F403
