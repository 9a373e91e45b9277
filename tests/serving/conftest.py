"""Fixtures of tests of servers."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_runs import demo_run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose model is served."""
    return demo_run(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def service(trained: Path) -> Any:
    """A service that keeps nothing and needs no key; a module may have its own."""
    from helpers.services import demo_service

    return demo_service(trained)


@pytest.fixture(scope="module")
def client(service: Any) -> Iterator[Any]:
    """A client of the service, with its first key if it needs one."""
    from helpers.services import KEYS, loaded_client

    with loaded_client(service, headers=KEYS[0] if service.keys else {}) as client:
        yield client


@pytest.fixture
def busy(service: Any, client: Any) -> Iterator[threading.Event]:
    """The engine waits until the event is set."""
    go, thread = threading.Event(), service.models["demo"].thread
    client.portal.call(lambda: [thread.compute(go.wait)])
    yield go
    go.set()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that nobody has signed, and its private key."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("apt install openssl")
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "certificate.pem", folder / "key.pem"
    command = f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    name = "translate.example.org"
    names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    written = ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([*command.split(), *names, *written], check=True, capture_output=True)
    return files
