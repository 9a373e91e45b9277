"""Commands, run in this process, and a small run to use them on."""

from helpers.commands import pairs as pairs
from helpers.commands import run as run
from helpers.commands import seq2seq as seq2seq
from helpers.commands import test_set as test_set
