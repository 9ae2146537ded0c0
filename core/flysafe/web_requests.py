"""An HTTP request as a value, the checks of its headers, and the request that follows a redirect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flysafe.web_urls import (
    DEFAULT_PORTS,
    InvalidWebUrl,
    ToAscii,
    UrlTarget,
    join_url,
    refuse_other_letters,
)

MAX_REDIRECTS = 5
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REDIRECTS = frozenset((301, 302, 303, 307, 308))
_SAFE = ("GET", "HEAD")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE = re.compile(r"[\t\x20-\x7e]{0,8192}")
_RESERVED = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te"),
        *("trailer", "expect", "accept-encoding", "http2-settings"),
    )
)
"""Headers that decide where and how a message is sent. The caller may not set them."""
_HARMLESS = frozenset(("accept", "accept-language", "user-agent"))
"""Headers that a redirect to another origin keeps. Any other header may be a credential."""

Headers = tuple[tuple[str, str], ...]


class InvalidHeader(ValueError):
    """A header that may not be sent; the text says why, without a full stop, and quotes no value."""


class RedirectRefused(ValueError):
    """A redirect that is not followed; the text says why, without a full stop."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to one target."""

    target: UrlTarget
    method: str = "GET"
    headers: Headers = ()
    body: bytes | None = None


def read_headers(given: Mapping[str, object]) -> Headers:
    """The caller's headers. Raises `InvalidHeader` for a reserved or repeated name, and for a character that
    could end a header line."""
    seen = set[str]()
    headers: list[tuple[str, str]] = []
    for name, value in given.items():
        low = name.lower()
        if not _NAME.fullmatch(name) or low in _RESERVED or low.startswith("proxy-") or low in seen:
            raise InvalidHeader("contains a name that you may not set, or one twice")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidHeader(f"{name} is not one line of printable ASCII")
        seen.add(low)
        headers.append((name, value.strip()))
    return tuple(headers)


def follow_redirect(
    request: HttpRequest, status: int, location: str, to_ascii: ToAscii = refuse_other_letters
) -> HttpRequest:
    """The request that follows a redirect.

    Raises `RedirectRefused` for a redirect from https to http, to an invalid address, or of
    a request that may have an effect (not GET or HEAD) to another origin.
    """
    try:
        target = join_url(request.target, location, to_ascii)
    except InvalidWebUrl as broken:
        raise _refused(request, f"url: {broken}") from broken
    if request.target.scheme == "https" and target.scheme == "http":
        raise _refused(request, "it leads from https to http")
    same = same_origin(request.target, target)
    # As browsers do: 303, and 301 and 302 after a POST, are followed with a GET without body (WHATWG Fetch).
    if request.method not in _SAFE and (status == 303 or (request.method == "POST" and status in (301, 302))):
        request = replace(request, method="GET", body=None, headers=_without_body(request.headers))
    elif request.method not in _SAFE and not same:
        raise _refused(request, f"it would send the {request.method} to {target.host}")
    headers = (
        request.headers if same else tuple(row for row in request.headers if row[0].lower() in _HARMLESS)
    )
    return replace(request, target=target, headers=headers)


def same_origin(old: UrlTarget, new: UrlTarget) -> bool:
    """Whether both are one origin, or the new one is the old one over TLS on the usual port."""
    usual = (DEFAULT_PORTS["http"], DEFAULT_PORTS["https"])
    upgraded = (old.scheme, new.scheme) == ("http", "https") and (old.port, new.port) == usual
    alike = (old.scheme, old.port) == (new.scheme, new.port)
    return old.host == new.host and (alike or upgraded)


def _without_body(headers: Headers) -> Headers:
    return tuple(row for row in headers if not row[0].lower().startswith("content-"))


def _refused(request: HttpRequest, why: str) -> RedirectRefused:
    return RedirectRefused(f"{request.target.host} redirects, but {why}")
