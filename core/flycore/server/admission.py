"""Who may come in over TCP and HTTP: what a request has to look like before anything of it is done.

A browser is led here by any page it shows, also under a name that its owner lets point to this machine. So
the request must name this very address, must not come from a page, and must bring a token, in a header that
no page can set.
"""

from __future__ import annotations

import http
import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

HEALTH = "/health"
"""Answered without a token: it says that somebody listens, and nothing else."""
BEARER = "bearer "
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")

Headers = Sequence[tuple[str, str]]
"""Names and values as they came, repeated ones repeated."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is answered instead. Nothing that was sent is repeated in it."""

    status: http.HTTPStatus
    reason: str

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Those that belong to the status."""
        wants = self.status is http.HTTPStatus.UNAUTHORIZED
        return (("WWW-Authenticate", "Bearer"),) if wants else ()


UNKNOWN_TOKEN = Refusal(
    http.HTTPStatus.UNAUTHORIZED, "that token is not known here; flytui token list names those that are"
)
CROWDED = Refusal(http.HTTPStatus.SERVICE_UNAVAILABLE, "too many connections are open: close one first")


def refusal(
    headers: Headers,
    peer: str,
    *,
    port: int,
    target: str,
    paths: Iterable[str],
    known: Callable[[str], bool],
) -> Refusal | None:
    """Why a request is refused; None where it may come in. `peer` is the address it comes from, `target` what
    follows the method in its first line, `paths` what is served besides `/health`, and `known` says whether a
    token is one of ours."""
    status = http.HTTPStatus
    if not _is_loopback(peer):
        return Refusal(status.FORBIDDEN, "only programs of this machine are served")
    hosts = values_of(headers, "host")
    if len(hosts) != 1:
        return Refusal(status.BAD_REQUEST, "exactly one Host is needed")
    if hosts[0] not in {f"{name}:{port}" for name in LOOPBACK_HOSTS}:
        return Refusal(status.FORBIDDEN, f"this is 127.0.0.1:{port} and no other host")
    if values_of(headers, "origin"):
        return Refusal(status.FORBIDDEN, "no browser is served here")
    path, asked, _ = target.partition("?")
    if asked:
        return Refusal(status.BAD_REQUEST, "no query is read here: a token goes into Authorization: Bearer")
    if path == HEALTH:
        return None
    if path not in paths:
        return Refusal(status.NOT_FOUND, "nothing is served under that path")
    token = bearer(headers)
    if token is None:
        return Refusal(
            status.UNAUTHORIZED, "one header Authorization: Bearer is needed; flytui token new makes a token"
        )
    if not known(token):
        return UNKNOWN_TOKEN
    return None


def bearer(headers: Headers) -> str | None:
    """The token that was brought; None where there is none, or more than one."""
    brought = values_of(headers, "authorization")
    if len(brought) != 1 or brought[0][: len(BEARER)].lower() != BEARER:
        return None
    return brought[0][len(BEARER) :].strip(" ") or None


def values_of(headers: Headers, name: str) -> list[str]:
    """Every value that was sent under that name (in small letters)."""
    return [value for key, value in headers if key.lower() == name]


def _is_loopback(peer: str) -> bool:
    try:
        return ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False
