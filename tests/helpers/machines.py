"""Two machines that share a folder: processes that do not see each other, all with the id 1."""

import shutil
import subprocess
import sys

ISOLATED = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
# Locks of a network disk may hold on one machine only, and its writes may take long.
APART = """
import contextlib, os, time
import filelock
filelock.FileLock = lambda path: contextlib.nullcontext()
os.getpid = lambda: 1
fsync = os.fsync
os.fsync = lambda file: (time.sleep(0.002), fsync(file))[1]
"""


def can_isolate() -> bool:
    """True if this user may have a namespace for process ids, as a container has."""
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*ISOLATED, "true"], capture_output=True).returncode == 0


def run_on_two(program: str, *arguments: object, isolated: bool = False) -> None:
    """Run a program on both machines at once, with the name of its machine (`a` or `b`) as its
    first argument.

    Args:
        isolated: True for separate namespaces of process ids, False to only change `os.getpid`.
    """
    begin = ISOLATED if isolated else []
    command = [*begin, sys.executable, "-c", APART + program]
    running = [
        subprocess.Popen([*command, name, *map(str, arguments)], stderr=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    for process in running:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
