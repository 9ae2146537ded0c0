"""Functions of both loopback listeners, TCP and HTTP: socket, silent loggers, the end of revoked tokens."""

from __future__ import annotations

import errno
import logging
import socket

import anyio

from flycore.kernel.bus import Bus
from flycore.model.events import EventClass
from flycore.server.bounded_listener import BoundedListener
from flycore.server.connection_limits import ConnectionLimits
from flycore.server.tokens import TokenStore

LOOPBACK = "127.0.0.1"
MORE_PORTS = 20
"""Ports that are tried after the first one, where that is in use."""
TOKEN_POLL_SECONDS = 1.0
"""How often the token file is checked for changes that no event reported, such as one made by hand."""


def bind_loopback(port: int, most: int) -> BoundedListener:
    """Return a listening socket on that port of 127.0.0.1, or on the next free one; port 0 takes any. It
    holds at most `most` connections.

    Raises OSError where none of the `MORE_PORTS` following ports is free.
    """
    last = port if port == 0 else min(port + MORE_PORTS, 65_535)
    for number in range(port, last + 1):
        try:
            return _listen(number, most)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or number == last:
                raise
    raise OSError(errno.EADDRINUSE, "no port is free")


def _listen(port: int, most: int) -> BoundedListener:
    listener = BoundedListener(socket.AF_INET, most)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen()
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def silence_logger(name: str) -> logging.Logger:
    """Return the logger of that name, disabled."""
    # The libraries log parts of what a peer sent; such text must not reach a log or a terminal.
    logger = logging.getLogger(name)
    logger.propagate = False
    logger.disabled = True
    return logger


async def watch_tokens(bus: Bus, tokens: TokenStore, limits: ConnectionLimits) -> None:
    """Drop the connections of each token that is revoked. Runs until it is cancelled."""
    known = tokens.tokens()
    with bus.subscribe(frozenset((EventClass.AUDIT,))) as events:
        while True:
            with anyio.move_on_after(TOKEN_POLL_SECONDS):
                await anext(aiter(events))
            if (now := tokens.tokens()) != known:
                known = now
                limits.keep_only(now)
