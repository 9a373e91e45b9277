"""Access: the names of the server, the origins of pages elsewhere, proxies, and keys."""

import codecs
import hmac
import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import Request

from seq2seq.errors import ConfigError
from seq2seq.serving.errors import HTTPError

# A name, which may end with a dot, or an address; then a port. No user, no path.
HOST = re.compile(r"([a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])\.?(?::[0-9]{0,5})?")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Access:
    """From where the service may be asked.

    Attributes:
        hosts: by which it may be called in the Host of a request; None = any.
        origins: of pages elsewhere that may ask, from browsers; `*` means all.
        proxies: addresses and networks of proxies, whose X-Forwarded-For is believed.
    """

    hosts: frozenset[str] | None = None
    origins: Sequence[str] = ()
    proxies: Sequence[str] = ()


def read_hosts(names: Sequence[str]) -> frozenset[str]:
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


def read_proxies(texts: Sequence[str]) -> list[str]:
    """The addresses and networks of a list of texts, each of which may name several.

    Raises: ConfigError if one is neither.
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


def check_host(headers: Headers, hosts: Collection[str] | None) -> None:
    """A page can make a browser believe that the name of its own server is this machine (DNS
    rebinding), and then reads what this server answers. The browser still sends the name.

    Args:
        hosts: by which the server may be called, in lower case; None = any.

    Raises: Refusal for another host, for none, and for more than one.
    """
    if hosts is None:
        return
    given = headers.getlist("host")
    match = HOST.fullmatch(given[0].strip().lower()) if len(given) == 1 else None
    if not match:
        raise HTTPError(400, "the request should name the server, as in Host: localhost")
    if match[1] not in hosts:
        raise HTTPError(
            421,
            f"this server is not asked as {match[1][:200]}: use {sorted(hosts)[0]}, or start it "
            f"with --allow-host {match[1][:200]}",
        )


def check_origin(headers: Headers, origins: Collection[str]) -> None:
    """A browser sends forms of any page to any server, without asking. It says so in Sec-Fetch-Site
    or, if it is old or the server is not trustworthy to it, in Origin alone. Programs send neither.

    Args:
        origins: that may ask; `*` means all.

    Raises: Refusal for a page of another origin than the server's own.
    """
    origin, site = headers.get("origin", ""), headers.get("sec-fetch-site", "")
    own = site in ("same-origin", "none")
    if not site:
        own = not origin or origin.partition("://")[2].lower() == headers.get("host", "").lower()
    if not (own or "*" in origins or (origin and origin in origins)):
        raise HTTPError(
            403,
            f"pages of {origin[:200] or 'other sites'} may not ask: start the server with --cors "
            f"{origin[:200] or 'ORIGIN'}, or use the server's own page",
        )


def read_keys(path: Path) -> list[bytes]:
    """The keys of a file, with white space between them.

    Raises: OSError if it cannot be read; ConfigError if it has none.
    """
    keys = path.read_bytes().removeprefix(codecs.BOM_UTF8).split()
    if not keys:
        raise ConfigError(f"{path} has no key: write one or more, a line for each")
    return keys


def header_key(request: Request) -> str:
    """The key in the header of a request; empty if there is none."""
    return request.headers.get("authorization", "").partition(" ")[2].strip()


def authorize(keys: Collection[bytes] | None, given: str) -> None:
    """Raises: Refusal if a key is needed, and the given one is none of the keys."""
    # All are compared, so that the time does not say which is similar.
    same = [hmac.compare_digest(given.strip().encode(), known) for known in keys or ()]
    if keys is not None and not any(same):
        raise HTTPError(403, "a key is needed: Authorization: Bearer KEY")
