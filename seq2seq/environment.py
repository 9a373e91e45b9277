"""What has to be set in the process's environment before torch is imported."""

import os


def wait_briefly() -> None:
    """Let idle OpenMP threads spin for a moment, then sleep, unless the user has decided otherwise.

    GNU's default spins long: on a machine that is shared, two threads that wait for each other's
    core make an update ten to a hundred times slower. OMP_WAIT_POLICY=PASSIVE never spins, and
    waking up is so dear that the second thread of two gains nothing on small tensors. Measured with
    an update of a small Transformer on two cores, seconds idle and beside a busy neighbour: default
    0.22 and 2 to 3, passive 0.36 and 0.40, this 0.26 and 0.55.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "4000"
