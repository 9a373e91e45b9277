"""Access: the names of the server, the origins of other pages, proxies, and keys."""

import codecs
import hmac
import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq.base.errors import ConfigError
from seq2seq.serving.errors import HTTPError

# A name, which may end with a dot, or an address; then a port. No user, no path.
HOST = re.compile(r"([a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])\.?(?::[0-9]{0,5})?")
CONTENT_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", CONTENT_POLICY),
    (b"cache-control", b"no-store"),
]
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Access:
    """From where requests are answered.

    Attributes:
        hosts: Names of the server in the Host of a request, in lower case; None = any.
        origins: Origins of other pages that may send requests from browsers; `*` means all.
        proxies: Addresses and networks of proxies whose X-Forwarded-For is believed.
    """

    hosts: frozenset[str] | None = None
    origins: Sequence[str] = ()
    proxies: Sequence[str] = ()


def parse_hosts(names: Sequence[str]) -> frozenset[str]:
    """The hosts that were typed, as `check_host` compares them.

    Raises: ConfigError if one is more than a name or an address, such as one with a port.
    """
    for name in names:
        match = HOST.fullmatch(name.lower())
        if not match or match[1] != name.lower():
            raise ConfigError(
                f"--allow-host {name} should be a name or an address as it stands in Host, without "
                "a port: --allow-host translate.example.org, --allow-host '[2001:db8::1]'"
            )
    return frozenset(name.lower() for name in names)


def parse_proxies(texts: Sequence[str]) -> list[str]:
    """The addresses and networks in a list of texts, separated by commas.

    Raises: ConfigError for anything else.
    """
    proxies = [each.strip() for text in texts for each in text.split(",")]
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            raise ConfigError(
                f"--trusted-proxy {proxy} should be an address or a network: --trusted-proxy "
                f"127.0.0.1, --trusted-proxy 10.0.0.0/8 ({error})"
            ) from None
    return proxies


class GuardMiddleware:
    """Refuses requests by their heads, before the application sees them, and adds headers to all
    answers that tell browsers what not to do with them.

    Args:
        max_requests: Requests that are answered at the same time; more are only answered if they
            ask for the health of the server.
    """

    def __init__(self, app: ASGIApp, access: Access, max_requests: int):
        self.app, self.access, self.max_requests = app, access, max_requests
        self.requests = 0  # that are being answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        self.requests += 1
        try:
            if scope["type"] == "http":
                self._check(scope)
            await self.app(scope, receive, send_with_headers)
        except HTTPError as error:
            await error.response()(scope, receive, send_with_headers)
        finally:
            self.requests -= 1

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        check_host(headers, self.access.hosts)
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            check_origin(headers, self.access.origins)
        if self.requests > self.max_requests and not scope["path"].startswith("/health/"):
            message = f"{self.max_requests:,} requests are being answered already"
            raise HTTPError(503, message, {"retry-after": "1", "connection": "close"})


def check_host(headers: Headers, hosts: Collection[str] | None) -> None:
    """Refuse a request that calls the server by a name that it does not have.

    A page can make a browser believe that the name of its own server is this machine (DNS
    rebinding), and then read what this server answers. The browser still sends that name.

    Args:
        hosts: Names of the server, in lower case; None = any.

    Raises: HTTPError for another host, for none, and for more than one.
    """
    if hosts is None:
        return
    values = headers.getlist("host")
    match = HOST.fullmatch(values[0].strip().lower()) if len(values) == 1 else None
    if not match:
        raise HTTPError(400, "the request should name the server, as in Host: localhost")
    if (host := match[1]) not in hosts:
        advice = f"use {sorted(hosts)[0]}, or start it with --allow-host {host[:200]}"
        raise HTTPError(421, f"this server does not answer as {host[:200]}: {advice}")


def check_origin(headers: Headers, origins: Collection[str]) -> None:
    """Refuse a request that a page of another site has made.

    A browser sends forms of any page to any server, without asking. It says so in Sec-Fetch-Site
    or, if it is old or does not trust the server, in Origin alone. Programs send neither.

    Args:
        origins: Origins whose pages may send requests; `*` means all.

    Raises: HTTPError for a page of another origin than the server's own and these.
    """
    origin, site = headers.get("origin", ""), headers.get("sec-fetch-site", "")
    is_own = not origin or origin.partition("://")[2].lower() == headers.get("host", "").lower()
    if site:
        is_own = site in ("same-origin", "none")
    if not (is_own or "*" in origins or (origin and origin in origins)):
        who, advice = origin[:200] or "other sites", f"--cors {origin[:200] or 'ORIGIN'}"
        advice = f"start the server with {advice}, or use the server's own page"
        raise HTTPError(403, f"pages of {who} may not send requests: {advice}")


def read_keys(path: Path) -> list[bytes]:
    """The keys of a file, with white space between them.

    Raises: OSError if it cannot be read; ConfigError if it has none.
    """
    keys = path.read_bytes().removeprefix(codecs.BOM_UTF8).split()
    if not keys:
        raise ConfigError(f"{path} has no key: write one or more, a line for each")
    return keys


def authorize(keys: Collection[bytes] | None, key: str, request: Request) -> str:
    """The client that a request comes from: its key, or its address if no key is needed.

    Raises: HTTPError if a key is needed and this one is unknown.
    """
    if keys is None:
        return request.client.host if request.client else ""
    # All are compared, so that the time does not say which is similar.
    given = key.strip().encode("utf-8", "replace")
    matches = [hmac.compare_digest(given, known) for known in keys]
    if not any(matches):
        others = "api_key or auth_key in the query or body, before a file and in its first 64 KiB"
        raise HTTPError(403, f"a key is needed: Authorization: Bearer KEY; or {others}")
    return key.strip()
