"""The command `python -m seq2seq.training`, which `seq2seq train` runs."""

from seq2seq.base.environment import quiet_interrupt

with quiet_interrupt():
    from seq2seq.training.launch import main

    main()
