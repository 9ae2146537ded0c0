"""`flytui activity --follow`: each change of a call on a line of its own, as long as the kernel runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flytui.cli.call_text import follow_line, outcome_text, state_text
from flytui.cli.interrupts import run_async
from flytui.cli.output import EXIT_UNKNOWN, print_error, print_line

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.model.call import Activity
    from flycore.registry.paths import RootPaths

PACE_S = 0.25
"""Between two looks: what changes more often is told in one line."""


class ChangeTracker:
    """What has been printed of each call, so that only what is new is."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._under_way: set[str] = set()

    def changed_calls(self, calls: tuple[Activity, ...]) -> Iterator[Activity]:
        """Calls of which something is new, oldest first. Of calls the kernel no longer names nothing is
        kept."""
        said = {call.call_id: f"{state_text(call)} {outcome_text(call)}" for call in calls}
        for call in reversed(calls):
            if self._said.get(call.call_id) != said[call.call_id]:
                yield call
        self._said = said
        self._under_way = {call.call_id for call in calls if call.result is None}

    def ended_calls(self, calls: tuple[Activity, ...]) -> Iterator[Activity]:
        """Of these, which have ended, the calls that were under way when last heard of."""
        return (call for call in reversed(calls) if call.call_id in self._under_way)


def follow_activity(places: RootPaths, count: int) -> int:
    """Print the last `count` calls, then every change; how the last ones ended is in the log.

    Exit 0 when the kernel leaves, 3 where none runs.
    """
    from flycore.client.remote import connect_unix
    from flycore.model.errors import ConnectionLost, KernelUnreachable
    from flycore.offline.audit_log import logged_calls

    told = ChangeTracker()

    async def follow() -> None:
        async with connect_unix(places.socket, viewer=True) as client:
            await _follow(client, told, count)

    try:
        run_async(follow)
    except KernelUnreachable:
        print_error(
            "no kernel runs on this root, so nothing changes: flytui activity lists what the log knows"
        )
        return EXIT_UNKNOWN
    except ConnectionLost:
        for call in told.ended_calls(logged_calls(places)):
            print_line(follow_line(call, time.time()))
        print_error("the kernel has left")
    return 0


async def _follow(client: Client, told: ChangeTracker, count: int) -> None:
    """Until the kernel leaves: then ConnectionLost."""
    import anyio

    from flycore.model.enums import Phase
    from flycore.model.errors import ConnectionLost
    from flycore.model.events import EventClass

    async with client.events(frozenset({EventClass.TOOL})) as events, anyio.create_task_group() as group:
        changed = anyio.Event()

        async def hear() -> None:
            nonlocal changed
            async for _ in events:
                changed.set()
            raise ConnectionLost("the kernel has left")

        calls = await client.activity()
        under_way = [call for call in calls if call.phase is not Phase.FINISHED]
        list(told.changed_calls(calls))
        for call in reversed([*under_way, *[call for call in calls if call.result is not None][:count]]):
            print_line(follow_line(call, time.time()))
        group.start_soon(hear)
        while True:
            await changed.wait()
            changed = anyio.Event()
            for call in told.changed_calls(await client.activity()):
                print_line(follow_line(call, time.time()))
            await anyio.sleep(PACE_S)
