"""Prints each change of a call on a line of its own while the kernel runs, for `flytui activity --follow`."""

from __future__ import annotations

import time
from collections.abc import Iterator

import anyio

from flycore.client.audit_log import logged_calls
from flycore.client.client import connect_root
from flycore.model.call import Activity
from flycore.model.enums import Phase
from flycore.model.errors import ConnectionLost, KernelUnreachable
from flycore.model.events import EventClass
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.call_text import follow_line, outcome_text, state_text
from flytui.cli.interrupts import run_async
from flytui.cli.output import EXIT_UNKNOWN, print_error, print_line

PACE_S = 0.25
"""Seconds between two fetches of the calls. Several changes within this time are printed as one."""


class ChangeTracker:
    """Keeps what was printed about each call, so that only changes are printed."""

    def __init__(self) -> None:
        self._printed: dict[str, str] = {}
        self._running: set[str] = set()

    def changed_calls(self, calls: tuple[Activity, ...]) -> Iterator[Activity]:
        """The calls that changed, oldest first. A call that the kernel no longer names is forgotten."""
        texts = {call.call_id: f"{state_text(call)} {outcome_text(call)}" for call in calls}
        for call in reversed(calls):
            if self._printed.get(call.call_id) != texts[call.call_id]:
                yield call
        self._printed = texts
        self._running = {call.call_id for call in calls if call.result is None}

    def ended_calls(self, calls: tuple[Activity, ...]) -> Iterator[Activity]:
        """Of these ended calls, those that were running at the last fetch."""
        return (call for call in reversed(calls) if call.call_id in self._running)


def follow_activity(places: RootPaths, count: int) -> int:
    """Print the last `count` calls, then every change until the kernel ends.

    The exit code is 0 when the kernel ended, and 3 where none runs.
    """
    tracker = ChangeTracker()

    async def follow() -> None:
        async with connect_root(places, viewer=True) as client:
            await _follow(client, tracker, count)

    try:
        run_async(follow)
    except KernelUnreachable:
        print_error(
            "no kernel runs on this root, so nothing changes: flytui activity lists the calls of the log"
        )
        return EXIT_UNKNOWN
    except ConnectionLost:
        # The kernel ended before it could report these calls. How they ended is in the log.
        for call in tracker.ended_calls(logged_calls(places)):
            print_line(follow_line(call, time.time()))
        print_error("the kernel has ended")
    return 0


async def _follow(client: Client, tracker: ChangeTracker, count: int) -> None:
    """Print changes until the kernel ends. Raises ConnectionLost then."""
    async with client.events(frozenset({EventClass.TOOL})) as events, anyio.create_task_group() as group:
        changed = anyio.Event()

        async def watch_events() -> None:
            nonlocal changed
            async for _ in events:
                changed.set()
            # Not raised here: the question about the calls may fail at the same moment, and of two exceptions
            # the command could explain neither.
            group.cancel_scope.cancel()

        calls = await client.activity()
        running = [call for call in calls if call.phase is not Phase.FINISHED]
        list(tracker.changed_calls(calls))
        for call in reversed([*running, *[call for call in calls if call.result is not None][:count]]):
            print_line(follow_line(call, time.time()))
        group.start_soon(watch_events)
        while True:
            await changed.wait()
            # Before the fetch: an event that comes during it may stand for a change that is not in its
            # answer.
            changed = anyio.Event()
            for call in tracker.changed_calls(await client.activity()):
                print_line(follow_line(call, time.time()))
            await anyio.sleep(PACE_S)
    raise ConnectionLost("the kernel has ended")
