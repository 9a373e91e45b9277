"""Access control: host names, origins of other sites, trusted proxies, and keys."""

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

# A host name, perhaps with a final dot, or an address; then an optional port. No user, no path.
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
    """The requests that are answered, by where they come from.

    Attributes:
        hosts: Names of the server that a Host header may have, in lower case; None = any.
        origins: Origins of other sites whose pages may send requests; `*` means all.
        proxies: Addresses and networks of proxies whose X-Forwarded-For is believed.
    """

    hosts: frozenset[str] | None = None
    origins: Sequence[str] = ()
    proxies: Sequence[str] = ()


def parse_hosts(names: Sequence[str]) -> frozenset[str]:
    """The host names that the operator typed, in the form that `check_host` compares.

    Raises: ConfigError if one is not just a name or an address, for example if it has a port.
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
    """The addresses and networks in a list of texts, each with commas between its entries.

    Raises: ConfigError if an entry is neither an address nor a network.
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
    """Refuses requests by their headers before the application sees them, and adds headers to all
    responses that restrict what browsers do with them.

    Args:
        max_requests: Largest number of requests answered at the same time; beyond it, only requests
            for the health of the server are answered.
    """

    def __init__(self, app: ASGIApp, access: Access, max_requests: int):
        self.app, self.access, self.max_requests = app, access, max_requests
        self.requests = 0  # being answered now

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
            message = f"the server is answering {self.max_requests:,} requests already"
            raise HTTPError(503, message, {"retry-after": "1", "connection": "close"})


def check_host(headers: Headers, hosts: Collection[str] | None) -> None:
    """Refuse a request that calls the server by a name that is not its own.

    A hostile page can make a browser take this machine for the page's own server (DNS rebinding),
    and then read what this server answers. The browser still sends the other server's name.

    Args:
        hosts: Names of the server, in lower case; None = any.

    Raises: HTTPError if the request names another host, none, or several.
    """
    if hosts is None:
        return
    values = headers.getlist("host")
    match = HOST.fullmatch(values[0].strip().lower()) if len(values) == 1 else None
    if not match:
        raise HTTPError(400, "the request should name the server, as in Host: localhost")
    if (host := match[1]) not in hosts:
        advice = f"use {sorted(hosts)[0]}, or start it with --allow-host {host[:200]}"
        raise HTTPError(421, f"{host[:200]} is not a name of this server: {advice}")


def check_origin(headers: Headers, origins: Collection[str]) -> None:
    """Refuse a request made by a page of another site.

    A browser sends the forms of any page to any server without asking. It says which site the page
    belongs to in Sec-Fetch-Site or, if it is old or does not trust the server, only in Origin.
    Programs other than browsers send neither.

    Args:
        origins: Origins of other sites whose pages may send requests; `*` means all.

    Raises: HTTPError if the page belongs neither to this server nor to one of these origins.
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
    """The keys in a file, which are separated by white space.

    Raises: OSError if the file cannot be read; ConfigError if it has no keys.
    """
    keys = path.read_bytes().removeprefix(codecs.BOM_UTF8).split()
    if not keys:
        raise ConfigError(f"{path} has no keys: write one on each line")
    return keys


def authorize(keys: Collection[bytes] | None, key: str, request: Request) -> str:
    """The client that sent a request: its key, or its address if no key is needed.

    Raises: HTTPError if a key is needed and this one is not known.
    """
    if keys is None:
        return request.client.host if request.client else ""
    # Compare with all keys, so that the time taken does not reveal which one is similar.
    given = key.strip().encode("utf-8", "replace")
    matches = [hmac.compare_digest(given, known) for known in keys]
    if not any(matches):
        others = "api_key or auth_key in the query or body (its first 64 KiB, before any file)"
        raise HTTPError(403, f"a key is needed: send Authorization: Bearer KEY, or {others}")
    return key.strip()
