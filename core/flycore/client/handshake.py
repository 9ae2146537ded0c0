"""The first steps of a connection: checks the owner of the socket and the protocol of the kernel."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

import flycore
from flycore.model.errors import KernelUnreachable, OtherVersion, ProtocolError, UnsafeSocket
from flycore.rpc.messages import ServerHello
from flycore.rpc.wire import HELLO_SECONDS, PROTOCOL
from flysafe.unix_sockets import is_same_user, peer_credentials, unsafe_socket


def check_folder(path: Path) -> None:
    """Raise UnsafeSocket where another user could have put the socket at `path`."""
    if problem := unsafe_socket(str(path)):
        raise UnsafeSocket(*problem)


class _Greeting(msgspec.Struct):
    payload: ServerHello


async def read_hello(connection: ClientConnection, path: Path) -> ServerHello:
    """Read the kernel's first message and return its payload.

    Raises KernelUnreachable, UnsafeSocket, OtherVersion, ProtocolError.
    """
    # `check_folder` looked at the path before; the credentials are those of the process that now answers.
    _, uid = peer_credentials(connection.transport.get_extra_info("socket"))
    if not is_same_user(uid):
        raise UnsafeSocket(str(path), f"a process of user {uid} answers there")
    try:
        with anyio.fail_after(HELLO_SECONDS):
            hello = msgspec.json.decode(await connection.recv(decode=False), type=_Greeting).payload
    except (ConnectionClosed, TimeoutError) as error:
        raise KernelUnreachable(str(path)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the program that answers on {path} is not a flytui kernel") from error
    if hello.protocol != PROTOCOL:
        own = f"flytui {flycore.__version__} ({PROTOCOL})"
        raise OtherVersion(own, f"flytui {hello.version} ({hello.protocol})", hello.pid)
    return hello
