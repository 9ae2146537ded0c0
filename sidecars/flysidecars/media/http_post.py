"""One bounded HTTP POST to an address that was checked: the one that was checked is the one connected to."""

from __future__ import annotations

import http.client
import socket
import time

from flysafe.addresses import Address
from flysafe.pinned_dns import (
    AddressRefused,
    HostUnresolved,
    connect_pinned,
    parse_allow_list,
    pinned_addresses,
)
from flysidecars.media.provider import MediaProvider
from flysidecars.sdk import JsonObject, ToolFailed

RESOLVE_S = 10.0
"""For the resolver, seconds."""
CONNECT_S = 10.0
"""For each address, seconds."""
LIMIT_S = 300.0
"""For the whole exchange, seconds; the call's own limit is mostly shorter."""
_CHUNK = 65536


def addresses_for(provider: MediaProvider) -> list[Address]:
    """The addresses to connect to. `localhost` and a loopback address in the URL say what they mean; any
    other host has to lead to public addresses only, or to what `allowPrivate` of the config lists. An item
    there that is no host, address or network allows nothing.

    Raises `ToolFailed` (`provider-refused`, `provider-failed`).
    """
    allowed, _ = parse_allow_list(provider.allow_private, own_machine=True)
    try:
        return pinned_addresses(provider.host, provider.port, RESOLVE_S, allowed)
    except HostUnresolved as failed:
        raise ToolFailed("provider-failed", "the provider's host is not known") from failed
    except AddressRefused as refused:
        raise ToolFailed(
            "provider-refused",
            "the provider's host leads to an address that is not public",
            remedy="list the host in config.allowPrivate of the entry, if that is meant",
        ) from refused


def ask_provider(provider: MediaProvider, question: JsonObject, *, most: int) -> JsonObject:
    """The provider's answer, at most `most` bytes. Raises `ToolFailed`: `provider-refused` for an address
    that is not allowed, `provider-failed`, with `status` where it answered with another than 200 to 299."""
    import json

    status, body = post(provider, json.dumps(question).encode(), most)
    if not 200 <= status < 300:
        moved = " and sends elsewhere, which is not followed" if 300 <= status < 400 else ""
        raise ToolFailed("provider-failed", f"the provider answers {status}{moved}", status=status)
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as broken:
        raise ToolFailed("provider-failed", "the provider's answer is not JSON", status=status) from broken
    if not isinstance(answer, dict):
        raise ToolFailed("provider-failed", "the provider's answer is no object", status=status)
    return answer


def post(provider: MediaProvider, body: bytes, most: int) -> tuple[int, bytes]:
    """Status and body of the answer; redirects are not followed. Raises `ToolFailed`: `provider-refused`,
    `provider-failed`, also for a body of more than `most` bytes or one that is compressed."""
    deadline = time.monotonic() + LIMIT_S
    connection = _PinnedConnection(provider, addresses_for(provider))
    headers = {
        **provider.headers,
        "Host": provider.authority,
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "Connection": "close",
    }
    try:
        connection.request("POST", provider.target, body, headers)
        response = connection.getresponse()
        if response.getheader("Content-Encoding", "identity").lower() != "identity":
            raise ToolFailed(
                "provider-failed", "the provider's answer is compressed, which was not asked for"
            )
        return response.status, _read(response, most, deadline)
    except (OSError, http.client.HTTPException) as failed:
        reason = (failed.strerror if isinstance(failed, OSError) else None) or type(failed).__name__
        raise ToolFailed("provider-failed", f"the provider cannot be asked: {reason}") from failed
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse, most: int, deadline: float) -> bytes:
    data = bytearray()
    while chunk := response.read1(_CHUNK):
        data += chunk
        if len(data) > most:
            raise ToolFailed("provider-failed", f"the provider's answer is larger than {most} bytes")
        if time.monotonic() > deadline:
            raise ToolFailed("provider-failed", "the provider takes too long to answer")
    return bytes(data)


class _PinnedConnection(http.client.HTTPConnection):
    """Connects to one of the addresses that were checked, whatever the name leads to by then."""

    def __init__(self, provider: MediaProvider, addresses: list[Address]) -> None:
        super().__init__(provider.host, provider.port, timeout=LIMIT_S)
        self._provider = provider
        self._addresses = addresses

    def connect(self) -> None:
        """Called by `request`."""
        found = connect_pinned(self._addresses, self._provider.port, CONNECT_S)
        found.settimeout(LIMIT_S)
        self.sock = self._secured(found)

    def _secured(self, found: socket.socket) -> socket.socket:
        if not self._provider.secure:
            return found
        import ssl

        return ssl.create_default_context().wrap_socket(found, server_hostname=self._provider.host)
