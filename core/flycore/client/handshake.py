"""The first steps of a connection: checks the owner of the socket and the version of the kernel."""

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
from flysafe.unix_sockets import is_same_user, peer_credentials

HELLO_SECONDS = 10.0
"""How long a kernel may take to send its first message."""


def check_folder(path: Path) -> None:
    """Raise UnsafeSocket where another user could have put the socket at `path`."""
    try:
        folder, facts = os.lstat(path.parent), os.lstat(path)
    except OSError:
        return  # nothing is there; the attempt to connect reports that
    if not stat.S_ISDIR(folder.st_mode) or not is_same_user(folder.st_uid):
        raise UnsafeSocket(str(path.parent), "it is not a folder of this user")
    if folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeSocket(str(path.parent), "other users may write to it")
    if not stat.S_ISSOCK(facts.st_mode):
        raise UnsafeSocket(str(path), "it is not a socket")


async def read_hello(connection: ClientConnection, path: Path) -> Status:
    """Read the kernel's first message and return the state of the kernel.

    Raises KernelUnreachable, UnsafeSocket, OtherVersion, ProtocolError.
    """
    # `check_folder` looked at the path before; the credentials are those of the process that now answers.
    _, uid = peer_credentials(connection.transport.get_extra_info("socket"))
    if not is_same_user(uid):
        raise UnsafeSocket(str(path), f"a process of user {uid} answers there")
    try:
        with anyio.fail_after(HELLO_SECONDS):
            hello = cast(dict[str, Any], msgspec.json.decode(await connection.recv(decode=False), type=dict))
        payload = hello["payload"]
        protocol, status = str(payload["capabilities"]["protocol"]), payload["status"]
        if protocol != PROTOCOL:
            own, other = (
                f"flytui {flycore.__version__} ({PROTOCOL})",
                f"flytui {status['version']} ({protocol})",
            )
            raise OtherVersion(own, other, int(status["pid"]))
        return msgspec.convert(status, Status)
    except (ConnectionClosed, TimeoutError) as error:
        raise KernelUnreachable(str(path)) from error
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError) as error:
        raise ProtocolError(f"the program that answers on {path} is not a flytui kernel") from error
