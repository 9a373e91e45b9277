"""The public name of `seq2seq.base.errors`."""

from seq2seq.base.errors import *  # noqa: F403
