"""The configurations of nginx and Caddy in docs/serve.md, as they are printed, before servers."""

import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from helpers.servers import ServerProcess
from helpers.tiny_runs import demo_lines

pytest.importorskip("uvicorn", reason="pip install -e '.[serve]'")
pytestmark = pytest.mark.serving

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
NAME = "translate.example.org"
OPTIONS = "--allow-host translate.example.org --trusted-proxy 127.0.0.1"
TEXT = demo_lines("test", "de", 1)[0]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def replaced(text: str, changes: dict[str, str]) -> str:
    """A text in which each of these stands once, and something else in its place."""
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def servers(trained: Path) -> Iterator[list[ServerProcess]]:
    """Two servers that were started as the page says."""
    assert f"`seq2seq serve RUN {OPTIONS}`" in PAGE
    servers = [ServerProcess(trained, *OPTIONS.split()) for _ in range(2)]
    yield [server.ready() for server in servers]
    for server in servers:
        assert server.end() == 0


class Named(HTTPSConnection):
    """A connection to a port here that is known by the name of the page."""

    def connect(self) -> None:
        plain = socket.create_connection(("127.0.0.1", self.port))
        self.sock = self._context.wrap_socket(plain, server_hostname=NAME)


def ask(port: int, method: str, path: str, entry: Any = None, **headers: str) -> tuple[int, str]:
    """Returns: the code and the content of an answer."""
    connection = Named(NAME, port, context=ssl._create_unverified_context())
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, json.dumps(entry) if entry else None, named)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content


def check(port: int, servers: list[ServerProcess], denied: int) -> None:
    """A browser, programs and a page elsewhere, before a proxy."""
    own = {"origin": f"https://{NAME}:{port}", "sec_fetch_site": "same-origin"}
    entry = {"text": TEXT, "source": "de"}
    assert ask(port, "GET", "/")[0] == 200
    code, content = ask(port, "POST", "/v1/translate", entry, **own)
    assert code == 200, content
    assert ask(port, "POST", "/v1/translate", entry, origin=own["origin"])[1] == content
    assert ask(port, "POST", "/v1/translate", entry)[1] == content
    assert ask(port, "POST", "/v1/translate", entry, origin="https://evil.example")[0] == 403
    assert ask(port, "POST", "/v1/translate", entry, sec_fetch_site="cross-site")[0] == 403
    events = ask(port, "POST", "/v1/translate", entry, accept="text/event-stream")[1]
    assert "event: done" in events
    assert ask(port, "GET", "/metrics")[0] == denied
    # A client cannot choose which address is logged. On this machine all are the proxy's.
    assert ask(port, "GET", "/languages", x_forwarded_for="203.0.113.9")[0] == 200
    while not (log := [line for each in servers for line in each.log if "GET /languages" in line]):
        time.sleep(0.05)
    assert all("127.0.0.1 GET /languages 200" in line for line in log)


def test_nginx_as_printed(
    tmp_path: Path, certificate: tuple[Path, Path], servers: list[ServerProcess]
) -> None:
    if not (nginx := shutil.which("nginx")):
        pytest.skip("apt install nginx")
    printed, zone, limit = re.findall(r"```nginx\n(.*?)```", PAGE, re.S)
    port = free_port()
    changes = {
        "proxy_pass": f"{limit} proxy_pass",
        "127.0.0.1:8000": f"127.0.0.1:{servers[0].port}",
        "127.0.0.1:8001": f"127.0.0.1:{servers[1].port}",
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/ssl/translate.pem": str(certificate[0]),
        "/etc/ssl/translate.key": str(certificate[1]),
    }
    folders = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    rest = " ".join(f"{each}_temp_path {tmp_path}/{each};" for each in folders)
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        f"daemon off; pid {tmp_path}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {rest}\n{zone}{replaced(printed, changes)} }}\n"
    )
    process = subprocess.Popen([nginx, "-p", str(tmp_path), "-c", str(configuration)])
    try:
        wait_for(port, process)
        check(port, servers, denied=403)
        # What the proxy says of others is believed, by address: see test_auth.py.
        key = {"authorization": "Bearer one"}
        codes = {ask(port, "GET", "/languages", **key)[0] for _ in range(60)}
        assert codes == {200, 429}
        assert ask(port, "GET", "/languages", authorization="Bearer other")[0] == 200
    finally:
        process.terminate()
        process.wait()


def test_caddy_as_printed(
    tmp_path: Path,
    certificate: tuple[Path, Path],
    servers: list[ServerProcess],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not (caddy := shutil.which("caddy")):
        pytest.skip("apt install caddy")
    (printed,) = re.findall(r"```\n(translate\.example\.org .*?)```", PAGE, re.S)
    port = free_port()
    changes = {
        f"{NAME} {{\n": f"https://{NAME}:{port} {{\ntls {certificate[0]} {certificate[1]}\n",
        "127.0.0.1:8000": f"127.0.0.1:{servers[0].port}",
        "127.0.0.1:8001": f"127.0.0.1:{servers[1].port}",
    }
    configuration = tmp_path / "Caddyfile"
    configuration.write_text(
        f"{{\nadmin off\nauto_https disable_redirects\n}}\n{replaced(printed, changes)}"
    )
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    command = [caddy, "run", "--config", str(configuration), "--adapter", "caddyfile"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        while ask(port, "GET", "/health/ready")[0] != 200:  # before it has asked the servers
            time.sleep(0.1)
        check(port, servers, denied=404)
    finally:
        process.terminate()
        process.wait()


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until something listens at a port."""
    while True:
        assert process.poll() is None
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
