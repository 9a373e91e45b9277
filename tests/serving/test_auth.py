"""Who may ask: hosts, origins, keys, proxies; and the connections of a server that runs."""

import asyncio
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")
pytest.importorskip("uvicorn")

from helpers.services import LOCAL, access, client_of, running, send

from seq2seq.base.errors import ConfigError
from seq2seq.serving.auth import Access
from seq2seq.serving.routes import KEY_IN_BODY, PATHS, SERVED
from seq2seq.serving.service import Service
from seq2seq.serving.validation import FORM, Limits


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("secure", [False, True])
def test_accepted_connections_send_at_once(
    host: str, secure: bool, certificate: tuple[Path, Path]
) -> None:
    async def ask() -> None:
        tls = certificate if secure else (None, None)
        async with running(host=host, tls=tls) as (server, port):
            context = ssl._create_unverified_context() if secure else None
            _, writer = await asyncio.open_connection(host, port, ssl=context)
            while not server.server_state.connections:
                await asyncio.sleep(0.01)
            (connection,) = server.server_state.connections
            accepted = connection.transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()

    try:
        asyncio.run(ask())
    except ConfigError:
        if host == "::1":
            pytest.skip("no IPv6 here")
        raise


HOSTS = {
    200: "localhost localhost:8000 127.0.0.1 127.0.0.1:1 [::1] [::1]:65535 LocalHost localhost. "
    "localhost.:80 localhost:",
    421: "evil.example evil.example:8000 localhost.evil.example evil.localhost "
    "127.0.0.1.evil.example 127.0.0.2 0.0.0.0 [::2]",
    400: ". :8000 localhost.. localhost:http localhost:123456 localhost:1:2 user@localhost "
    "localhost@evil.example localhost/evil ::1 [::1 löcalhost",
}
CODES = [(host, code) for code, hosts in HOSTS.items() for host in hosts.split()]
CODES += [("", 400), (" ", 400), ("localhost, evil.example", 400)]


def test_a_server_for_this_machine_answers_only_as_this_machine() -> None:
    async def ask() -> None:
        async with running() as (_, port):
            for host, code in CODES:
                for path in ("/health/live", "/", "/openapi.yaml", "/languages"):
                    found, answer = await send(port, f"GET {path} HTTP/1.1\nHost: {host}")
                    assert found == code, (host, path, answer)
                    assert code != 421 or "--allow-host" in answer
                found, _ = await send(port, f"GET /health/live HTTP/1.0\nHost: {host}")
                assert found == code, host
            for head, code in (
                ("GET /health/live HTTP/1.0", 400),
                ("GET /health/live HTTP/1.1", 400),
                ("GET /health/live HTTP/1.1\nHost: localhost\nHost: evil.example", 400),
                ("GET http://localhost/health/live HTTP/1.1\nHost: evil.example", 421),
                ("POST /translate HTTP/1.1\nHost: evil.example\nContent-Length: 9", 421),
            ):
                assert (await send(port, head))[0] == code, head

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("words", "answered", "refused"),
    [
        ((), ["localhost"], ["10.0.0.1", "a.example"]),
        (("--allow-host", "A.example", "--allow-host", "[2001:db8::1]"),
         ["localhost", "a.example", "A.EXAMPLE:8000", "a.example.", "[2001:db8::1]:1"],
         ["b.a.example", "b.example"]),
        (("--host", "::1"), ["[::1]", "localhost"], ["a.example"]),
        (("--host", "127.0.0.2"), ["127.0.0.2", "127.0.0.1"], ["127.0.0.3"]),
        (("--no-auth",), ["localhost"], ["a.example"]),
        # Others reach it by names that it does not know; a strange page has no key.
        (("--host", "0.0.0.0", "--no-auth"), ["a.example", ""], []),
        (("--keys", "FILE"), ["a.example", "rubbish@"], []),
        (("--keys", "FILE", "--allow-host", "a.example"), ["a.example", "localhost"], ["b"]),
        (("--host", "0.0.0.0", "--no-auth", "--allow-host", "a.example"), ["a.example"], ["b"]),
    ],
)  # fmt: skip
def test_names_of_the_server_are_given(
    words: tuple[str, ...], answered: list[str], refused: list[str]
) -> None:
    with client_of(Service({}), access(*words)) as client:
        for hosts, codes in ((answered, {200}), (refused, {400, 421})):
            for host in hosts:
                answer = client.get("/health/live", headers={"host": host})
                assert answer.status_code in codes, host


@pytest.mark.parametrize(
    "words",
    [
        ("--allow-host", "http://a.example"),
        ("--allow-host", "a.example:8000"),
        ("--allow-host", "*"),
        ("--allow-host", ""),
        ("--allow-host", "bücher.example"),
        ("--allow-host", "2001:db8::1"),
        ("--trusted-proxy", "proxy.example"),
        ("--trusted-proxy", "10.0.0.1/8"),
        ("--trusted-proxy", "*"),
        ("--trusted-proxy", ""),
        ("--trusted-proxy", "127.0.0.1,,10.0.0.0/8"),
    ],
)
def test_names_and_addresses_that_are_none_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=f"{words[0]} .*should be .*: {words[0]} "):
        access(*words)


@pytest.mark.parametrize("kind", [FORM, "text/plain", "application/json"])
@pytest.mark.parametrize("path", PATHS["POST"])
def test_pages_elsewhere_cost_nothing(path: str, kind: str) -> None:
    def codes(access: Access, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["content-type"] = kind
        with client_of(Service({}), access, base_url="http://localhost:8000") as client:
            return client.post(path, content=b"q=a&source=de&target=en", headers=named).status_code

    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://localhost"},
        {"origin": "null"},
        {"origin": "http://localhost:8000.evil.example"},
        {"origin": "localhost:8000"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "origin": "http://localhost:8000"},
    ):
        assert codes(LOCAL, **headers) == 403, headers
    for headers in (
        {},
        {"origin": "http://localhost:8000"},
        {"sec_fetch_site": "same-origin", "origin": "http://localhost:8000"},
        {"sec_fetch_site": "none"},
    ):
        assert codes(LOCAL, **headers) != 403, headers
    named = access("--cors", "https://a.example")
    for site in ({}, {"sec_fetch_site": "cross-site"}):
        assert codes(named, origin="https://a.example", **site) != 403
        assert codes(named, origin="https://b.example", **site) == 403
        assert codes(named, origin="null", **site) == 403
        assert codes(access("--cors", "*"), origin="null", **site) != 403


def test_a_key_is_checked_before_a_body_is_read() -> None:
    """The body never comes."""

    async def ask() -> None:
        async with running(access("--keys", "FILE"), keys=[b"key"]) as (_, port):
            for path in PATHS["POST"]:
                for key in ("Bearer wrong", "DeepL-Auth-Key wrong", "Bearer ke", None):
                    if key is None and path in KEY_IN_BODY:
                        continue  # the key may be in the body: see test_bodies.py
                    head = f"POST {path} HTTP/1.1\nHost: a\nContent-Length: 100000"
                    head += f"\nAuthorization: {key}" if key else ""
                    assert (await send(port, head))[0] == 403, (path, key)

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("words", "client"),
    [
        ((), "127.0.0.1"),
        (("--trusted-proxy", "10.0.0.0/8"), "127.0.0.1"),
        (("--trusted-proxy", "127.0.0.1"), "203.0.113.9"),
        (("--trusted-proxy", "10.0.0.1,127.0.0.0/8"), "203.0.113.9"),
        (("--trusted-proxy", "10.0.0.1", "--trusted-proxy", "127.0.0.1"), "203.0.113.9"),
    ],
)
def test_a_proxy_is_believed_only_if_it_is_trusted(
    words: tuple[str, ...], client: str, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # of uvicorn's own command
    caplog.set_level(logging.INFO, logger="seq2seq.access")

    async def ask() -> None:
        async with running(access(*words)) as (_, port):
            # What comes before was written by the client.
            head = (
                "GET /health/live HTTP/1.1\nHost: localhost\nX-Forwarded-For: 1.1.1.1, 203.0.113.9"
            )
            assert (await send(port, head))[0] == 200

    asyncio.run(ask())
    assert [line.split()[0] for line in caplog.messages if "/health/live" in line] == [client]


def test_connections_without_a_request_make_room_and_requests_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ask() -> None:
        limits = Limits(connections=20)
        async with running(limits=limits) as (server, port):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
            for _, writer in idle[::2]:
                writer.write(b"GET /health/li")
            while len(server.server_state.connections) > 20:
                await asyncio.sleep(0.01)
            assert (await send(port, "GET /languages HTTP/1.1\nHost: localhost"))[0] == 200
            # Twenty whose bodies do not come are at work; the health of the server is still told.
            head = b"POST /detect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
            slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for _, writer in slow:
                writer.write(head)
            while True:
                code, answer = await send(port, "GET /languages HTTP/1.1\nHost: localhost")
                if code != 200:
                    break
            assert code == 503 and "retry-after: 1" in answer and "connection: close" in answer
            assert (await send(port, "GET /health/live HTTP/1.1\nHost: localhost"))[0] == 200
            for _, writer in (*idle, *slow):
                writer.close()
            while server.server_state.connections:
                await asyncio.sleep(0.01)
            assert (await send(port, "GET /languages HTTP/1.1\nHost: localhost"))[0] == 200

    asyncio.run(ask())
    assert not [line for line in caplog.messages if "can no longer be closed" in line]


def test_connections_that_uvicorn_does_not_show_stay(caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> None:
        async with running(limits=Limits(connections=1)) as (server, _):
            shown, opaque = server.server_state.connections, {object() for _ in range(3)}
            server.server_state.connections = opaque
            for number in range(3):
                await server.on_tick(number)
            server.server_state.connections = shown

    asyncio.run(ask())
    (line,) = [line for line in caplog.messages if "can no longer be closed" in line]
    assert "uvicorn" in line


def test_every_path_is_guarded() -> None:
    with client_of(Service({}), LOCAL, base_url="http://evil.example") as client:
        for path in (*SERVED, "/", "/page.js", "/openapi.yaml", "/metrics", "/nowhere"):
            for method in ("GET", "POST", "HEAD", "OPTIONS", "DELETE"):
                assert client.request(method, path).status_code == 421, (method, path)
