"""A listener that falls behind is told that it lost events, at either end of the socket."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from flycore.client.client import BACKLOG, connect_unix
from flycore.kernel.bus import BACKLOG as KERNEL_BACKLOG
from flycore.model.events import MISSED, Event, EventClass
from kits.kernel import PATIENCE, Root
from kits.unix_socket import served

pytestmark = pytest.mark.anyio

ONLY = frozenset({EventClass.APPROVAL})
STEP = 50


def event(type: str) -> Event:
    return Event(cls=EventClass.APPROVAL, type=type, at=1.0)


@pytest.mark.parametrize("at_once", [STEP, 3 * KERNEL_BACKLOG])
async def test_who_reads_too_late_is_told_that_events_are_gone(tmp_path: Path, at_once: int) -> None:
    """Handed out in small steps it is the client that cannot keep them; at once, the kernel's bus."""
    root = Root(tmp_path)
    async with (
        served(root) as kernel,
        connect_unix(root.places.socket, viewer=True) as viewer,
        viewer.events(ONLY) as heard,
    ):
        for _ in range(3 * max(BACKLOG, KERNEL_BACKLOG) // at_once):
            for _ in range(at_once):
                kernel.bus.publish(event("flood"))
            await viewer.status()
        types: list[str] = []
        with anyio.fail_after(PATIENCE):
            async for one in heard:
                types.append(one.type)
                if one.type == MISSED:
                    break
            kernel.bus.publish(event("after"))
            async for one in heard:
                if one.type == "after":
                    break
    assert MISSED in types
    assert len(types) <= BACKLOG


async def test_who_keeps_up_is_told_nothing_of_the_kind(tmp_path: Path) -> None:
    root = Root(tmp_path)
    async with (
        served(root) as kernel,
        connect_unix(root.places.socket, viewer=True) as viewer,
        viewer.events(ONLY) as heard,
    ):
        for number in range(3):
            for _ in range(STEP):
                kernel.bus.publish(event("flood"))
            kernel.bus.publish(event(f"end {number}"))
            types: list[str] = []
            with anyio.fail_after(PATIENCE):
                async for one in heard:
                    types.append(one.type)
                    if one.type == f"end {number}":
                        break
            assert types == [*["flood"] * STEP, f"end {number}"]
