"""How a command asks the kernel of a root: it starts one if none runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from flycore.client.attach import TerminalApprover
from flycore.client.client import KernelClient, connect, connect_root
from flycore.model.catalog import Catalog
from flycore.model.errors import ConnectionLost, KernelUnreachable
from flycore.model.status import Status
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Approver, Client
from flytui.cli.interrupts import run_async

T = TypeVar("T")


def ask_kernel(
    places: RootPaths, question: Callable[[KernelClient], Awaitable[T]], *, probes: bool = False
) -> T:
    """Return the answer of the root's kernel, which has read the root's files just before.

    With `probes`, it has also waited for the sidecars that were being probed. Raises FlyError if no kernel
    can run on the root.
    """

    async def ask() -> T:
        async with connect(places, viewer=True) as client:
            await client.refresh(probes)
            return await question(client)

    return run_async(ask)


def ask_running_kernel(places: RootPaths, question: Callable[[KernelClient], Awaitable[T]]) -> T | None:
    """Return the answer of the kernel that runs; None if none runs, or if it ended before it answered."""

    async def ask() -> T:
        async with connect_root(places, viewer=True) as client:
            return await question(client)

    try:
        return run_async(ask)
    except (KernelUnreachable, ConnectionLost):
        return None


def read_catalog(places: RootPaths, *, probes: bool) -> Catalog:
    """Return the catalog, with `probes` once the sidecars that are due have been probed."""

    async def question(client: Client) -> Catalog:
        return await client.catalog()

    return ask_kernel(places, question, probes=probes)


def read_status(places: RootPaths) -> Status:
    """Return the state of the root's kernel."""

    async def question(client: Client) -> Status:
        return await client.status()

    return ask_kernel(places, question)


def decide(places: RootPaths, decision: Callable[[Approver], Awaitable[T]]) -> T:
    """Send a decision that a person has made on this terminal, and return its outcome. It is refused while a
    console, or `flytui serve`, has the root."""

    async def send(client: KernelClient) -> T:
        return await decision(TerminalApprover(client, places))

    return ask_kernel(places, send)


def console_has_root(status: Status) -> str:
    """Return who has to decide instead of a command at a terminal, with its place; empty if nobody has."""
    if status.on_demand:
        return ""
    if status.role == "console":
        return f"a console is open on this root (pid {status.pid})"
    return f"flytui serve holds this root (pid {status.pid}), with a console attached to it (flytui)"
