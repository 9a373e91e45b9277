"""`python -m seq2seq.training`: what `seq2seq train` runs."""

from seq2seq.training.launch import main

main()
