"""An ARM64 machine that this one emulates: a small Debian in a folder, whose programs qemu runs.

    python scripts/arm64.py FOLDER make WHEEL               # and install a wheel in it
    python scripts/arm64.py FOLDER run seq2seq --version
    python scripts/arm64.py FOLDER --cpu cortex-a53 run seq2seq native --build

As root, on Linux; `make` needs a network. Inside, /checkout is this checkout, and nothing can
compile. An emulator says what is right, and nothing about speed.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PROGRAMS = {"debootstrap": "debootstrap", "qemu-aarch64-static": "qemu-user-static"}
REGISTERED = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")  # the kernel knows the emulator
PACKAGES = "python3,python3-venv,ca-certificates"
TORCH = "torch==2.8.0"  # of the registry's builds for ARM64, the last one without CUDA
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
KEPT = ["PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "https_proxy", "OMP_NUM_THREADS", "OMP_WAIT_POLICY"]
MOUNTS = 'for each in proc sys dev; do mount --rbind "/$each" "$0/$each"; done; '
MOUNTS += 'mount --bind "$1" "$0/checkout"; shift; exec chroot "$0" "$@"'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the machine is")
    parser.add_argument("--cpu", default="max", help="processor, as qemu names it (cortex-a53)")
    parser.add_argument("verb", choices=["make", "run"])
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the wheel, or a command")
    given = parser.parse_args()
    if not given.words:
        parser.error(f"{given.verb} needs {'a wheel' if given.verb == 'make' else 'a command'}")
    check_host()
    if given.verb == "make":
        make(given.folder.resolve(), Path(*given.words).resolve())
    elif not (given.folder / "made").is_file():
        raise SystemExit(f"{given.folder} is not such a machine: make test-arm64 makes one")
    else:
        sys.exit(run(given.folder.resolve(), given.words, given.cpu))


def check_host() -> None:
    """Raises: SystemExit if this machine cannot emulate another, with what to type."""
    missing = [package for name, package in PROGRAMS.items() if not shutil.which(name)]
    if missing:
        raise SystemExit(f"not installed: apt-get install {' '.join(missing)}")
    if os.geteuid():
        raise SystemExit("only root may make and enter such a folder: sudo")
    if not REGISTERED.exists():
        mount = ["mount", "-t", "binfmt_misc", "binfmt_misc", str(REGISTERED.parent)]
        for words in (mount, ["update-binfmts", "--enable", "qemu-aarch64"]):
            subprocess.run(words, check=False)
    if not REGISTERED.exists():
        raise SystemExit("this kernel does not start programs of ARM64: it lacks binfmt_misc")


def make(folder: Path, wheel: Path) -> None:
    """Make the machine unless it is there, and install a wheel in it.

    Raises: CalledProcessError if a step fails; SystemExit if there is no such wheel.
    """
    if not wheel.is_file():
        raise SystemExit(f"{wheel} is not a wheel: make dist-arm64 builds one")
    if not (folder / "made").is_file():
        if folder.exists() and any(folder.iterdir()):
            raise SystemExit(
                f"{folder} holds something else, or half a machine: delete it yourself"
            )
        words = ["--arch=arm64", "--variant=minbase", f"--include={PACKAGES}", "bookworm"]
        subprocess.run(["debootstrap", *words, folder], check=True)
        if Path(CERTIFICATES).is_file():  # a network's own authority, for example
            shutil.copy(CERTIFICATES, f"{folder}{CERTIFICATES}")
        check(folder, "python3 -m venv /env")
        check(folder, f"pip install --no-compile {TORCH} pytest hypothesis")
        (folder / "made").touch()
    shutil.copy(wheel, folder / wheel.name)
    check(folder, f"pip install --no-compile {TORCH} /{wheel.name}")  # and what it needs
    check(folder, f"pip install --no-compile --no-deps --force-reinstall /{wheel.name}")


def check(folder: Path, command: str) -> None:
    words = shlex.split(command)
    if code := run(folder, words):
        raise subprocess.CalledProcessError(code, words)


def run(folder: Path, words: list[str], cpu: str = "max") -> int:
    """Run a command in the machine, in its folder /work. Returns: its exit code."""
    for each in ("checkout", "work"):
        (folder / each).mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    own = {"PATH": "/env/bin:/usr/bin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    own |= {"PIP_CERT": CERTIFICATES, "QEMU_CPU": cpu}
    variables = [f"{name}={value}" for name, value in {**kept, **own}.items()]
    inside = ["env", "-i", "-C", "/work", *variables, *words]
    # What is mounted here disappears with the process.
    mounted = ["unshare", "--mount", "sh", "-ec", MOUNTS, str(folder), str(CHECKOUT), *inside]
    return subprocess.run(mounted, check=False).returncode


if __name__ == "__main__":
    main()
