"""What has to be set in the process's environment before torch is imported."""

import os


def wait_passively() -> None:
    """Let idle OpenMP threads sleep instead of spin, unless the user has decided otherwise.

    On a machine that is shared, two threads that spin while they wait for a third process's core
    make an update up to a hundred times slower; sleeping costs a few per cent.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
