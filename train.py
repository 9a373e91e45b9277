"""Train a model: python train.py model=transformer attn=gqa. Every option is in conf/."""

from seq2seq.base.environment import quiet_interrupt

if __name__ == "__main__":
    with quiet_interrupt():
        from seq2seq.training.launch import main

        main()
