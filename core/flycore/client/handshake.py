"""Whether what listens on a socket is this user's kernel, and one that this program goes with."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

import flycore
from flycore.model.errors import KernelUnreachable, OtherVersion, ProtocolError, UnsafeSocket
from flycore.model.status import Status
from flycore.rpc.messages import PROTOCOL
from flycore.server.peer_credentials import is_same_user, peer_credentials

HELLO_SECONDS = 10.0
"""How long a kernel may take for its first message."""


def check_folder(path: Path) -> None:
    """Raise UnsafeSocket where somebody else could have put the socket there. What is not there at all is
    for the connecting to find out."""
    try:
        folder, facts = os.lstat(path.parent), os.lstat(path)
    except OSError:
        return
    if not stat.S_ISDIR(folder.st_mode) or not is_same_user(folder.st_uid):
        raise UnsafeSocket(str(path.parent), "it is not a folder of this user")
    if folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeSocket(str(path.parent), "others may write to it")
    if not stat.S_ISSOCK(facts.st_mode):
        raise UnsafeSocket(str(path), "it is not a socket")


async def read_hello(connection: ClientConnection, path: Path) -> Status:
    """What the kernel says of itself. Raises KernelUnreachable, UnsafeSocket, OtherVersion, ProtocolError."""
    _, uid = peer_credentials(connection.transport.get_extra_info("socket"))
    if not is_same_user(uid):
        raise UnsafeSocket(str(path), f"user {uid} answers there")
    try:
        with anyio.fail_after(HELLO_SECONDS):
            hello = cast(dict[str, Any], msgspec.json.decode(await connection.recv(decode=False), type=dict))
        payload = hello["payload"]
        protocol, said = str(payload["capabilities"]["protocol"]), payload["status"]
        if protocol != PROTOCOL:
            here, there = (
                f"flytui {flycore.__version__} ({PROTOCOL})",
                f"flytui {said['version']} ({protocol})",
            )
            raise OtherVersion(here, there, int(said["pid"]))
        return msgspec.convert(said, Status)
    except (ConnectionClosed, TimeoutError) as error:
        raise KernelUnreachable(str(path)) from error
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError) as error:
        raise ProtocolError(f"what answers on {path} is no kernel of flytui") from error
