"""Sends one HTTP POST to a provider, with limits on time and size, at an address that was checked."""

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
"""The longest wait for the resolver, seconds."""
CONNECT_S = 10.0
"""The longest wait for a connection to one address, seconds."""
EXCHANGE_S = 300.0
"""The longest exchange, seconds. The call's own limit is mostly shorter."""
_CHUNK = 65536


def addresses_for(provider: MediaProvider) -> list[Address]:
    """The addresses of the provider.

    `localhost` and loopback addresses in the URL are allowed. Any other host must have public addresses only,
    or be listed in `allowPrivate` of the config. An invalid item there allows nothing. Raises `ToolFailed`:
    `provider-refused`, `provider-failed`.
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


def ask_provider(provider: MediaProvider, document: JsonObject, *, max_bytes: int) -> JsonObject:
    """Send a document to the provider and return its answer of at most `max_bytes`.

    Raises `ToolFailed`: `provider-refused` for an address that is not allowed, else `provider-failed`, with
    `status` if the provider answered.
    """
    import json

    status, body = post(provider, json.dumps(document).encode(), max_bytes)
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


def post(provider: MediaProvider, body: bytes, max_bytes: int) -> tuple[int, bytes]:
    """Send a body and return the status and the body of the answer. Redirects are not followed.

    Raises `ToolFailed`: `provider-refused`, `provider-failed`, also for an answer that is larger than
    `max_bytes` or compressed.
    """
    deadline = time.monotonic() + EXCHANGE_S
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
        return response.status, _read(response, max_bytes, deadline)
    except (OSError, http.client.HTTPException) as failed:
        reason = (failed.strerror if isinstance(failed, OSError) else None) or type(failed).__name__
        raise ToolFailed("provider-failed", f"the provider cannot be asked: {reason}") from failed
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse, max_bytes: int, deadline: float) -> bytes:
    data = bytearray()
    while chunk := response.read1(_CHUNK):
        data += chunk
        if len(data) > max_bytes:
            raise ToolFailed("provider-failed", f"the provider's answer is larger than {max_bytes} bytes")
        if time.monotonic() > deadline:
            raise ToolFailed("provider-failed", "the provider takes too long to answer")
    return bytes(data)


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to one of the checked addresses. The name is not resolved again."""

    def __init__(self, provider: MediaProvider, addresses: list[Address]) -> None:
        super().__init__(provider.host, provider.port, timeout=EXCHANGE_S)
        self._provider = provider
        self._addresses = addresses

    def connect(self) -> None:
        """Connect. `http.client` calls this from `request`."""
        found = connect_pinned(self._addresses, self._provider.port, CONNECT_S)
        found.settimeout(EXCHANGE_S)
        self.sock = self._secured(found)

    def _secured(self, found: socket.socket) -> socket.socket:
        if not self._provider.secure:
            return found
        import ssl

        return ssl.create_default_context().wrap_socket(found, server_hostname=self._provider.host)
