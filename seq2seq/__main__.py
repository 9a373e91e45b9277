"""`python -m seq2seq` is `seq2seq`."""

from seq2seq.cli.main import main

main()
