"""Parses web addresses, and refuses those that programs read in different ways.

Refused are: user names before the host, backslashes, blanks and control characters, percent signs in a host,
IP addresses that are not in the usual form, and host names with letters that look like others. Ports of
other protocols are refused as in browsers (WHATWG Fetch, "port blocking").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address
from urllib.parse import quote, urljoin

from flysafe.addresses import parse_address

MAX_URL = 8192
DEFAULT_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:@%]+))(?::([0-9]{1,5}))?")
_REFUSED = re.compile(r"[\x00-\x20\x7f-\xa0\\<>\"`{}|^\u2028\u2029\u3002\uff0e\uff61]")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNQUOTED = "!#$%&'()*+,/:;=?@[]~"
"""The characters that `quote` keeps, besides letters, digits and `_.-`."""
_BLOCKED = (
    "1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 "
    "119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 "
    "636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 "
    "6679 6697 10080"
)
BLOCKED_PORTS = frozenset(map(int, _BLOCKED.split()))


ToAscii = Callable[[str], str]
"""Returns a host name with other letters as ASCII (IDNA). Raises InvalidWebUrl."""


class InvalidWebUrl(ValueError):
    """An address that is refused; the text says why, without a full stop."""


def refuse_other_letters(host: str) -> str:
    """Raise InvalidWebUrl for a host name that is not ASCII."""
    raise InvalidWebUrl("the host has letters beyond ASCII; write it in its xn-- form")


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """The target of a request. All fields are ASCII, the host is in lower case, IPv6 without brackets."""

    scheme: str
    host: str
    port: int
    path: str
    """Path and query; begins with `/`."""

    @property
    def origin(self) -> str:
        """Scheme, host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def url(self) -> str:
        """The complete address."""
        return self.origin + self.path


def parse_url(text: str, to_ascii: ToAscii = refuse_other_letters) -> UrlTarget:
    """The target of an http or https address; its fragment is dropped. Raises `InvalidWebUrl`."""
    if len(text) > MAX_URL:
        raise InvalidWebUrl(f"longer than {MAX_URL} characters")
    if _REFUSED.search(text):
        raise InvalidWebUrl("contains a blank, a control character or one that programs read differently")
    parts = _URL.fullmatch(text)
    if parts is None:
        raise InvalidWebUrl("not an http or https address")
    scheme, authority, rest = parts[1].lower(), parts[2], parts[3]
    if "@" in authority:
        raise InvalidWebUrl("contains a user name before the host; send credentials as a header")
    place = _AUTHORITY.fullmatch(authority)
    if place is None:
        raise InvalidWebUrl("host or port can be read in more than one way")
    host = _ipv6_host(place[1]) if place[1] else _host_name(place[2], to_ascii)
    port = int(place[3]) if place[3] else DEFAULT_PORTS[scheme]
    if not 0 < port < 65536 or port in BLOCKED_PORTS:
        raise InvalidWebUrl(f"port {port} is not for the web")
    path = quote(rest, safe=_UNQUOTED)
    return UrlTarget(scheme, host, port, path if path.startswith("/") else f"/{path}")


def join_url(base: UrlTarget, location: str, to_ascii: ToAscii = refuse_other_letters) -> UrlTarget:
    """The target of a redirect from `base`. Raises `InvalidWebUrl`."""
    try:
        joined = urljoin(base.url, location.replace(" ", "%20"))
    except ValueError as broken:
        raise InvalidWebUrl("the redirect's address cannot be read") from broken
    return parse_url(joined, to_ascii)


def _ipv6_host(text: str) -> str:
    address = parse_address(text)
    if not isinstance(address, IPv6Address):
        raise InvalidWebUrl("the text in brackets is not an IPv6 address")
    return str(address)


def _host_name(text: str, to_ascii: ToAscii) -> str:
    host = text.lower() if text.isascii() else to_ascii(text)
    labels = host.removesuffix(".").split(".")
    if len(host) > 254 or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidWebUrl("not a host name")
    # A last label that is a number makes resolvers read the name as an IPv4 address, such as 0x7f.1.
    if _NUMBER.fullmatch(labels[-1]) and parse_address(host) is None:
        raise InvalidWebUrl("an IPv4 address that is not in the usual form of four numbers")
    return host
