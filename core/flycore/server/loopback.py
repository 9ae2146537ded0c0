"""What both listeners on loopback share: a port, quiet logs, and an eye on tokens that are taken away."""

from __future__ import annotations

import errno
import logging
import socket

import anyio

from flycore.kernel.bus import Bus
from flycore.model.events import EventClass
from flycore.server.connection_limits import ConnectionLimits
from flycore.server.tokens import TokenStore

LOOPBACK = "127.0.0.1"
MORE_PORTS = 20
"""Ports tried after the first one, when that is busy."""
LISTEN_BACKLOG = 128
TOKEN_POLL_SECONDS = 1.0
"""How often the token file is looked at for a change that nobody told of."""


def bind_loopback(port: int) -> socket.socket:
    """A listening socket on that port of 127.0.0.1, or on the next free one; port 0 takes any. Raises OSError
    where none is free."""
    last = port if port == 0 else min(port + MORE_PORTS, 65_535)
    for number in range(port, last + 1):
        try:
            return _listen(number)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or number == last:
                raise
    raise OSError(errno.EADDRINUSE, "no port is free")


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(LISTEN_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def silence_logger(name: str) -> logging.Logger:
    """That logger, saying nothing: what a peer sends is written nowhere."""
    logger = logging.getLogger(name)
    logger.propagate = False
    logger.disabled = True
    return logger


async def watch_tokens(bus: Bus, tokens: TokenStore, gate: ConnectionLimits) -> None:
    """End the connections of a token as soon as it is taken away; runs until cancelled."""
    known = tokens.tokens()
    with bus.subscribe(frozenset((EventClass.AUDIT,))) as events:
        while True:
            with anyio.move_on_after(TOKEN_POLL_SECONDS):
                await anext(aiter(events))
            if (now := tokens.tokens()) != known:
                known = now
                gate.keep_only(now)
