"""`python -m seq2seq` is `seq2seq`."""

from seq2seq.environment import quiet_interrupt


def main() -> None:
    """Run a command; Ctrl-C ends it quietly while it is imported, too."""
    with quiet_interrupt():
        from seq2seq.cli.main import main

        main()


if __name__ == "__main__":
    main()
