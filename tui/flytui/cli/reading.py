"""Looking without touching: the running kernel's own view, else one made for the moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.client.socket import SocketClient
    from flycore.model.call import Activity
    from flycore.model.catalog import Catalog
    from flycore.registry.places import Places

T = TypeVar("T")
MOST_LOGGED = 500
"""Calls of the log that are looked at."""


def ask_running(places: Places, question: Callable[[SocketClient], Awaitable[T]]) -> T | None:
    """What the running kernel answers; None where none runs, or it left before it answered."""
    if not places.socket.exists():
        return None
    from flycore.client.socket import connect_socket
    from flycore.model.errors import ConnectionLost, KernelUnreachable
    from flytui.cli.interrupts import run_async

    async def ask() -> T:
        async with connect_socket(places.socket, viewer=True) as client:
            return await question(client)

    try:
        return run_async(ask)
    except (KernelUnreachable, ConnectionLost):
        return None


def read_catalog(places: Places, *, probe: bool) -> Catalog:
    """The catalog, whether a kernel runs or not. With `probe`, sidecars that have not been asked lately
    are asked whether they are well; a running kernel does that by itself."""

    async def question(client: Client) -> Catalog:
        return await client.catalog()

    seen = ask_running(places, question)
    if seen is not None:
        return seen
    from flycore.client.oneoff import read_catalog as read_once
    from flytui.cli.interrupts import run_async

    async def look() -> Catalog:
        return await read_once(places, probe=probe)

    return run_async(look)


def logged_calls(places: Places) -> tuple[Activity, ...]:
    """The latest calls in the log, newest first. OSError."""
    from flycore.audit.projection import history
    from flycore.kernel.records import activity_of

    made = [activity_of(record) for record in history(places.audit_dir, limit=MOST_LOGGED)]
    return tuple(sorted(made, key=lambda call: call.started_at, reverse=True))
