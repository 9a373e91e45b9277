"""The command line, run in this process."""

from helpers.commands import seq2seq as seq2seq
