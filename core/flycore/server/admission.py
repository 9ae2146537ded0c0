"""Admission over TCP and HTTP: the checks that a request must pass before any part of it is carried out.

Any web page can make a browser connect to this machine, also under a host name that the owner of the page
points to 127.0.0.1 (DNS rebinding). Therefore the request must name this exact address as its host, must not
come from a page, and must carry a token in a header that no page can set. A client that sends no headers may
bring a token of its own kind in the URL, over the TCP door alone: a page that knew it would send an Origin.
"""

from __future__ import annotations

import http
import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

HEALTH = "/health"
"""Path that is answered without a token. The answer says that a server listens, and nothing else."""
BEARER = "bearer "
URL_KEY = "token"
"""The one key of a query that is read, where a door takes tokens of URLs."""
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")

_URL_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,256}")

Headers = Sequence[tuple[str, str]]
"""Names and values in the order in which they arrived; a repeated header appears repeatedly."""


class Refusal(msgspec.Struct, frozen=True):
    """The answer to a request that is not admitted. It repeats nothing that the peer sent."""

    status: http.HTTPStatus
    reason: str

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers that HTTP requires beside this status."""
        unauthorized = self.status is http.HTTPStatus.UNAUTHORIZED
        return (("WWW-Authenticate", "Bearer"),) if unauthorized else ()


UNKNOWN_TOKEN = Refusal(
    http.HTTPStatus.UNAUTHORIZED, "this token is not known; flytui token list shows the known tokens"
)
UNKNOWN_URL_TOKEN = Refusal(
    http.HTTPStatus.UNAUTHORIZED, "this URL holds no token for URLs; flytui token url NAME makes one"
)
TOO_MANY_CONNECTIONS = Refusal(
    http.HTTPStatus.SERVICE_UNAVAILABLE, "too many connections are open: close one first"
)


def refusal(
    headers: Headers,
    peer: str,
    *,
    port: int,
    target: str,
    paths: Iterable[str],
    known: Callable[[str], bool],
    known_in_url: Callable[[str], bool] | None = None,
) -> Refusal | None:
    """Return why the request is refused, or None where it is admitted.

    `peer` is the address that the request comes from, `target` what follows the method in its first line,
    `paths` the paths that are served besides `/health`. `known` returns whether the server knows a token from
    a header, `known_in_url` from a query; None refuses every query.
    """
    status = http.HTTPStatus
    if not _is_loopback(peer):
        return Refusal(status.FORBIDDEN, "only programs on this machine are served")
    hosts = values_of(headers, "host")
    if len(hosts) != 1:
        return Refusal(status.BAD_REQUEST, "the request must have exactly one Host header")
    # A page that reaches us by DNS rebinding sends the host name of its own site.
    if hosts[0] not in {f"{name}:{port}" for name in LOOPBACK_HOSTS}:
        return Refusal(status.FORBIDDEN, f"the Host header must name 127.0.0.1:{port}")
    # Browsers add Origin to every WebSocket handshake and every POST; other clients do not send it.
    if values_of(headers, "origin"):
        return Refusal(status.FORBIDDEN, "browsers are not served")
    path, mark, _ = target.partition("?")
    # A query ends in the logs and the history of many clients. So no token of another kind is taken from it.
    if mark and (known_in_url is None or path == HEALTH):
        return Refusal(status.BAD_REQUEST, "queries are not read: send the token as Authorization: Bearer")
    if path == HEALTH:
        return None
    if path not in paths:
        return Refusal(status.NOT_FOUND, "nothing is served under this path")
    if mark and known_in_url is not None:
        presented = query_token(target)
        if presented is None or values_of(headers, "authorization"):
            return Refusal(status.BAD_REQUEST, "a query may hold one token, and then no header may hold one")
        return None if known_in_url(presented) else UNKNOWN_URL_TOKEN
    token = bearer(headers)
    if token is None:
        return Refusal(
            status.UNAUTHORIZED,
            "one Authorization: Bearer header is required; flytui token new makes a token",
        )
    if not known(token):
        return UNKNOWN_TOKEN
    return None


def query_token(target: str) -> str | None:
    """Return the token in the query of a request's target; None where the query is anything else."""
    _, mark, query = target.partition("?")
    key, _, value = query.partition("=")
    return value if mark and key == URL_KEY and _URL_TOKEN.fullmatch(value) else None


def bearer(headers: Headers) -> str | None:
    """Return the token in the Authorization header; None where there is none, or more than one."""
    values = values_of(headers, "authorization")
    if len(values) != 1 or values[0][: len(BEARER)].lower() != BEARER:
        return None
    return values[0][len(BEARER) :].strip(" ") or None


def values_of(headers: Headers, name: str) -> list[str]:
    """Return every value of the header `name`, which is given in lower case."""
    return [value for key, value in headers if key.lower() == name]


def _is_loopback(peer: str) -> bool:
    try:
        return ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False
