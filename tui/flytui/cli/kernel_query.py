"""The kernel of a root, asked by a command; and the root without one: read for the moment, or held."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.client.remote import RemoteClient
    from flycore.model.catalog import Catalog
    from flycore.model.enums import KernelRole
    from flycore.model.errors import RootBusy
    from flycore.offline.root import HeldRoot
    from flycore.registry.paths import RootPaths

T = TypeVar("T")


def query_kernel(places: RootPaths, question: Callable[[RemoteClient], Awaitable[T]]) -> T | None:
    """What the running kernel answers; None where none runs, or it left before it answered."""
    if not places.socket.exists():
        return None
    from flycore.client.remote import connect_unix
    from flycore.model.errors import ConnectionLost, KernelUnreachable
    from flytui.cli.interrupts import run_async

    async def ask() -> T:
        async with connect_unix(places.socket, viewer=True) as client:
            return await question(client)

    try:
        return run_async(ask)
    except (KernelUnreachable, ConnectionLost):
        return None


def read_catalog(places: RootPaths, *, probe: bool) -> Catalog:
    """The catalog, whether a kernel runs or not. With `probe`, sidecars that have not been asked lately
    are asked whether they are well; a running kernel does that by itself."""

    async def question(client: Client) -> Catalog:
        return await client.catalog()

    seen = query_kernel(places, question)
    if seen is not None:
        return seen
    from flycore.offline.catalog import read_catalog as read_once
    from flytui.cli.interrupts import run_async

    async def look() -> Catalog:
        return await read_once(places, probe=probe)

    return run_async(look)


def hold_root(places: RootPaths, role: KernelRole) -> AbstractContextManager[HeldRoot]:
    """Hold the root while the block runs; the person is told where that takes long. Raises RootBusy, see
    `flycore.offline.root.hold_root`."""
    from flycore.offline import root

    return root.hold_root(places, role, ask_to_yield=lambda: _ask_to_yield(places), on_wait=_print_wait)


def _ask_to_yield(places: RootPaths) -> None:
    from flycore.model.errors import OtherVersion, ProtocolError

    async def ask(client: RemoteClient) -> bool:
        await client.ask_for("kernel.yield")
        return True

    # A kernel of another version does not understand the message; its end is waited for all the same.
    with suppress(ProtocolError, OtherVersion):
        query_kernel(places, ask)


def _print_wait(busy: RootBusy) -> None:
    from flytui.cli.output import print_error

    print_error(f"waits until pid {busy.pid} ({busy.role}) has ended what it runs" if busy.pid else "waits")
