"""How a command asks the running kernel of a root, or reads or holds the root where no kernel runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from flycore.client.remote import RemoteClient
    from flycore.model.catalog import Catalog
    from flycore.model.enums import KernelRole
    from flycore.model.errors import RootBusy
    from flycore.offline.root import HeldRoot
    from flycore.registry.paths import RootPaths
    from flycore.rpc.methods import Client

T = TypeVar("T")


def query_kernel(places: RootPaths, question: Callable[[RemoteClient], Awaitable[T]]) -> T | None:
    """The answer of the running kernel; None where none runs, or where it ended before it answered."""
    if not kernel_may_run(places):
        return None
    from flycore.client.remote import connect_root
    from flycore.model.errors import ConnectionLost, KernelUnreachable
    from flytui.cli.interrupts import run_async

    async def ask() -> T:
        async with connect_root(places, viewer=True) as client:
            return await question(client)

    try:
        return run_async(ask)
    except (KernelUnreachable, ConnectionLost):
        return None


def kernel_may_run(places: RootPaths) -> bool:
    """Whether the root has a holder. It spares the imports of a client where no kernel runs."""
    from flycore.registry.paths import KERNEL_LOCK

    if places.socket.exists():
        return True
    with suppress(OSError):
        # A holder that ends empties the lock's file, but not one that was killed.
        if (places.state_dir / KERNEL_LOCK).stat().st_size:
            from flycore.offline.root import kernel_socket, living_holder

            # A kernel of another environment serves at the path that its record names.
            return kernel_socket(places).exists() or living_holder(places) is not None
    return False


def read_catalog(places: RootPaths, *, probe: bool) -> Catalog:
    """The catalog, from the running kernel or, without one, from the files of the root. With `probe`,
    sidecars without a recent probe are probed; a running kernel does that by itself."""

    async def question(client: Client) -> Catalog:
        return await client.catalog()

    catalog = query_kernel(places, question)
    if catalog is not None:
        return catalog
    from flycore.offline.catalog import known_catalog, read_root

    root = read_root(places)
    # What starts processes needs an event loop, whose imports take as long as everything else here.
    if not probe or root.asks_nobody():
        return known_catalog(root)
    from flycore.offline.probed_catalog import probed_catalog
    from flytui.cli.interrupts import run_async

    return run_async(lambda: probed_catalog(root))


def hold_root(places: RootPaths, role: KernelRole) -> AbstractContextManager[HeldRoot]:
    """Hold the root for the block. While another process has it, a message says what the command waits for.
    Raises RootBusy, as `flycore.offline.root.hold_root` does."""
    from flycore.offline import root

    return root.hold_root(places, role, ask_to_yield=lambda: _ask_to_yield(places), on_wait=_print_wait)


def _ask_to_yield(places: RootPaths) -> None:
    from flycore.model.errors import OtherVersion, ProtocolError

    async def ask(client: RemoteClient) -> bool:
        await client.ask_for("kernel.yield")
        return True

    # A kernel of another version does not understand the message. The caller waits for its end all the same.
    with suppress(ProtocolError, OtherVersion):
        query_kernel(places, ask)


def _print_wait(busy: RootBusy) -> None:
    from flytui.cli.output import print_error

    holder = f"pid {busy.pid} ({busy.role})" if busy.pid else "another process"
    print_error(f"waits until {holder} has ended what it runs")
