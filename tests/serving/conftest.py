"""What tests of servers share."""

import shutil
import subprocess
from pathlib import Path

import pytest


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
