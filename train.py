"""Train a model: python train.py model=transformer attn=gqa. Every option is in conf/."""

from seq2seq.training.launch import main

if __name__ == "__main__":
    main()
