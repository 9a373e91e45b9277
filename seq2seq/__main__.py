"""`python -m seq2seq` is `seq2seq`."""

import sys

try:
    from seq2seq.base.environment import quick_exit, quiet_interrupt
except KeyboardInterrupt:  # the import itself was interrupted
    sys.exit(130)


def main() -> None:
    """Run a command and end; Ctrl-C ends it quietly, also during its import."""
    with quick_exit(), quiet_interrupt():
        from seq2seq.cli.main import main

        main()


if __name__ == "__main__":
    main()
