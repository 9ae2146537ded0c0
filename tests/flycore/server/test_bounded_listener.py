"""A crowd of connections: descriptors stay bounded, the terminal stays quiet, others are served."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import anyio
import pytest

from flycore.client.client import connect_unix
from flycore.server.bounded_listener import BoundedListener
from flycore.server.connection_limits import MAX_OPEN, MAX_PER_PROCESS, ProcessLimits
from kits.descriptors import none_left
from kits.kernel import ECHO, Root, until
from kits.unix_socket import served

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO)
    return root


@pytest.fixture
def listener() -> Iterator[BoundedListener]:
    with closing(BoundedListener(socket.AF_INET, 2)) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(30)
        yield listener


def connect(listener: BoundedListener, stack: ExitStack) -> socket.socket:
    return stack.enter_context(closing(socket.create_connection(listener.getsockname(), 30)))


def accepted(listener: BoundedListener) -> socket.socket | None:
    try:
        return listener.accept()[0]
    except OSError:
        return None


def test_no_more_than_the_limit_is_kept_and_a_closed_one_makes_room(listener: BoundedListener) -> None:
    with ExitStack() as stack:
        clients = [connect(listener, stack) for _ in range(5)]
        first, second = listener.accept()[0], listener.accept()[0]
        listener.settimeout(0.2)
        assert accepted(listener) is None
        assert (listener.open, listener.refused) == (2, 3)
        assert all(client.recv(1) == b"" for client in clients[2:])
        first.close()
        first.close()
        assert listener.open == 1
        connect(listener, stack)
        listener.settimeout(30)
        third = listener.accept()[0]
        assert listener.open == 2
        second.close()
        third.close()


def test_without_a_descriptor_a_connection_is_closed_and_no_error_raised(listener: BoundedListener) -> None:
    with ExitStack() as stack:
        client = connect(listener, stack)
        with none_left():
            listener.settimeout(0.2)
            assert accepted(listener) is None
        assert listener.refused == 1
        assert client.recv(1) == b""
        connect(listener, stack)
        listener.settimeout(30)
        listener.accept()[0].close()


def test_a_reserve_is_free_while_one_of_those_it_is_for_is_connected() -> None:
    """Without a descriptor left, a stranger is refused, and the one that is served finds descriptors."""
    welcome: list[bool] = []

    def may_use(connection: socket.socket) -> bool:
        os.stat("/proc/self/status")
        os.close(os.open("/proc/self/status", os.O_RDONLY))
        return welcome.pop(0)

    with (
        ExitStack() as stack,
        closing(BoundedListener(socket.AF_INET, 8, reserve=6, may_use_reserve=may_use)) as listener,
    ):
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(30)
        clients = [connect(listener, stack) for _ in range(3)]
        with none_left():
            welcome[:] = [False, True, False]
            served = listener.accept()[0]
            assert clients[0].recv(1) == b""
            free = [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]
            for number in free:
                os.close(number)
            # What is free now belongs to the one that is served: a crowd must not take it.
            listener.settimeout(0.2)
            assert accepted(listener) is None
            assert clients[2].recv(1) == b""
            served.close()
            with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                os.open(os.devnull, os.O_RDONLY)
            assert (listener.open, listener.refused) == (0, 2)


def test_the_persons_commands_have_places_when_every_process_has_one() -> None:
    limits = ProcessLimits(open_in_all=4, reserved=2, is_own_command=lambda pid: pid >= 100)
    dropped: list[int] = []
    for pid in (1, 2, 3, 4, 5, 100, 101, 102, 6):
        limits.opened(pid, pid, lambda pid=pid: dropped.append(pid))  # type: ignore[misc]  # a bound default
    assert dropped == [5, 102, 6]


def test_the_process_with_the_most_connections_gives_way() -> None:
    limits, dropped = ProcessLimits(open_in_all=6, per_process=5), list[str]()

    def open_(name: str, pid: int) -> None:
        limits.opened(name, pid, lambda: dropped.append(name))

    for number in range(6):
        open_(f"a{number}", 1)
    assert dropped == ["a5"]
    open_("b0", 2)
    assert dropped == ["a5"]
    open_("c0", 3)
    assert dropped == ["a5", "a4"]
    for number in range(1, 5):
        open_(f"b{number}", 2)
    assert dropped[2:] == ["a3", "b2", "b3", "b4"]
    open_("d0", 4)
    assert len(dropped) == 7
    assert dropped[-1] != "d0"


async def test_one_process_cannot_keep_others_from_the_socket(root: Root) -> None:
    async with served(root) as kernel:
        path = str(root.places.socket)
        crowd = [await asyncio.open_unix_connection(path) for _ in range(MAX_PER_PROCESS + 40)]
        # This process is the crowd, so it is another one that asks.
        code = "import asyncio, sys\n"
        code += "async def main():\n"
        code += "    reader, writer = await asyncio.open_unix_connection(sys.argv[1])\n"
        code += "    writer.write(b'GET /health HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
        code += "    print((await reader.read(200)).decode())\n"
        code += "asyncio.run(main())\n"
        done = await anyio.run_process([sys.executable, "-I", "-c", code, path])
        assert b"200 OK" in done.stdout
        for _, writer in crowd:
            writer.close()
        with anyio.fail_after(60):
            while True:
                try:
                    async with connect_unix(root.places.socket) as client:
                        await client.status()
                    break
                except Exception:  # noqa: BLE001 - until the crowd is gone
                    await anyio.sleep(0.05)
        await until(lambda: kernel.status().clients == 0)
    assert MAX_PER_PROCESS < MAX_OPEN
