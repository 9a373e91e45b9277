"""The test sets of WMT, IWSLT and others by name, as sacreBLEU fetches and keeps them."""

import difflib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sacrebleu.dataset import DATASETS
from sacrebleu.utils import SACREBLEU_DIR, get_reference_files, get_source_file

from seq2seq.errors import ConfigError, DataError

PATIENCE = 30  # seconds to wait for an answer of the server


def find_test_set(name: str, langpair: str) -> tuple[Path, list[Path]]:
    """The file of sources and those of the references, fetched if they are not there yet.

    They are kept in ~/.sacrebleu, or in the folder that SACREBLEU names in the environment.

    Args:
        name: as of `sacrebleu --list`, such as `wmt14/full`.
        langpair: source and target, such as `en-de`.

    Raises: ConfigError for an unknown name or pair; DataError if it cannot be fetched.
    """
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=5, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else "."
        raise ConfigError(
            f"--test-set {name}: sacreBLEU has none of that name{hint} All of them: "
            "sacrebleu --list"
        )
    pairs = DATASETS[name].langpairs
    if langpair not in pairs:
        raise ConfigError(f"--langpair {langpair}: {name} has {', '.join(sorted(pairs))}")
    try:
        with impatient():
            source = get_source_file(name, langpair)
            references = get_reference_files(name, langpair)
    # No network, a lost connection, a damaged archive, a lock held by another process: all raise
    # different errors. On a wrong checksum, sacreBLEU exits.
    except (Exception, SystemExit) as error:
        raise DataError(
            f"the test set {name} {langpair} is not in {SACREBLEU_DIR} and cannot be fetched: "
            f"{error}. On a machine with a network: sacrebleu -t {name} -l {langpair} --echo src; "
            "then copy that folder here"
        ) from error
    if not references:
        raise DataError(f"the test set {name} {langpair} has no references to score against")
    return Path(source), [Path(path) for path in references]


@contextmanager
def impatient() -> Iterator[None]:
    """Time out: sacreBLEU would wait for a server forever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
