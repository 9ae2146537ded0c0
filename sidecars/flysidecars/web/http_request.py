"""What is asked for, and what a redirect makes of it; values only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flysidecars.sdk import InvalidInput, ToolFailed
from flysidecars.web.urls import DEFAULT_PORTS, InvalidUrl, UrlTarget, join_url

MOST_REDIRECTS = 5
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REDIRECTS = frozenset((301, 302, 303, 307, 308))
_SAFE = ("GET", "HEAD")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE = re.compile(r"[\t\x20-\x7e]{0,8192}")
_OURS = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te"),
        *("trailer", "expect", "accept-encoding", "http2-settings"),
    )
)
"""Headers that say how a message is sent and where to: never the caller's."""
_HARMLESS = frozenset(("accept", "accept-language", "user-agent"))
"""Headers that go along to another origin: any other may be a credential."""

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request to one target."""

    target: UrlTarget
    method: str = "GET"
    headers: Headers = ()
    body: bytes | None = None


def read_headers(given: Mapping[str, object]) -> Headers:
    """The caller's headers. Raises `InvalidInput` for names and values that could end a header, say how the
    message is sent, or stand there twice."""
    seen = set[str]()
    headers: list[tuple[str, str]] = []
    for name, value in given.items():
        low = name.lower()
        if not _NAME.fullmatch(name) or low in _OURS or low.startswith("proxy-") or low in seen:
            raise InvalidInput("headers", "holds a name that may not be sent, or one twice")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidInput("headers", f"{name} is not one line of printable ASCII")
        seen.add(low)
        headers.append((name, value.strip()))
    return tuple(headers)


def follow_redirect(order: HttpRequest, status: int, location: str) -> HttpRequest:
    """The request that follows a redirect. Raises `ToolFailed` (`redirect-refused`): to plain http, to what
    is no address of the web, or with a body or an effect to another origin."""
    try:
        target = join_url(order.target, location)
    except InvalidUrl as broken:
        raise _refused(order, broken.message) from broken
    if order.target.scheme == "https" and target.scheme == "http":
        raise _refused(order, "it leads from https to http")
    same = _same_origin(order.target, target)
    if order.method not in _SAFE and (status == 303 or (order.method == "POST" and status in (301, 302))):
        order = replace(order, method="GET", body=None, headers=_without_body(order.headers))
    elif order.method not in _SAFE and not same:
        raise _refused(order, f"it would send the {order.method} to {target.host}")
    headers = order.headers if same else tuple(row for row in order.headers if row[0].lower() in _HARMLESS)
    return replace(order, target=target, headers=headers)


def _same_origin(old: UrlTarget, new: UrlTarget) -> bool:
    """Whether what was said to the one may be said to the other: the same, or the same over TLS."""
    usual = (DEFAULT_PORTS["http"], DEFAULT_PORTS["https"])
    upgraded = (old.scheme, new.scheme) == ("http", "https") and (old.port, new.port) == usual
    alike = (old.scheme, old.port) == (new.scheme, new.port)
    return old.host == new.host and (alike or upgraded)


def _without_body(headers: Headers) -> Headers:
    return tuple(row for row in headers if not row[0].lower().startswith("content-"))


def _refused(order: HttpRequest, why: str) -> ToolFailed:
    return ToolFailed("redirect-refused", f"{order.target.host} redirects, but {why}", host=order.target.host)
