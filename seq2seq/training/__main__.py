"""`python -m seq2seq.training`: what `seq2seq train` runs."""

from seq2seq.environment import quiet_interrupt

with quiet_interrupt():
    from seq2seq.training.launch import main

    main()
