"""Calls a person who is away: runs the program they named in their settings when a request waits.

It is told how many wait and the highest risk among them, and nothing of what is asked.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping

import anyio

from flycore.kernel.bus import Bus
from flycore.model.approval import Ask, highest_waiting
from flycore.model.clock import Clock
from flycore.model.enums import RequestState, Risk
from flycore.model.events import MISSED, Event, EventClass
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.child.spawn import SpawnSpec

EVERY_SECONDS = 5.0
"""At most one notification in this time; what comes meanwhile is told together after it."""
LIMITS = RunLimits(timeout_ms=10_000, max_output_bytes=65_536)
MOST_STDERR = 200
_PASSED = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
        *("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY"),
    )
)
"""What a program needs to reach the person's own desktop; no other variable of this process."""


class Notifier:
    """Listens for requests and runs the command. `problem` says why the last one did not work."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        environ: Mapping[str, str],
        asks: Callable[[], tuple[Ask, ...]],
        command: Callable[[], tuple[str, ...]],
    ) -> None:
        self._bus, self._clock, self._environ = bus, clock, environ
        self._asks, self._command = asks, command
        self._due = anyio.Event()
        self._numbers = itertools.count(1)
        self.problem = ""

    async def run(self) -> None:
        """Until cancelled."""
        with self._bus.subscribe(frozenset((EventClass.APPROVAL,))) as events:
            async with anyio.create_task_group() as group:
                group.start_soon(self._notify)
                async for event in events:
                    if event.type in ("approval.asked", MISSED):
                        self._due.set()

    async def _notify(self) -> None:
        while True:
            await self._due.wait()
            self._due = anyio.Event()
            asks, command = self._asks(), self._command()
            risk = highest_waiting(asks)
            if risk is None or not command:
                continue
            count = sum(ask.state is RequestState.WAITING for ask in asks)
            last = self._clock.monotonic()
            self._set_problem(failure_message(await run_child(self._spec(command, count, risk), b"", LIMITS)))
            await self._clock.sleep_until(last + EVERY_SECONDS)

    def _spec(self, command: tuple[str, ...], count: int, risk: Risk) -> SpawnSpec:
        """The user's own argv; `{count}` and `{risk}` in it are filled in. It starts in the home folder,
        so that a name without a path is never looked for in a project."""
        call_id = f"notify-{os.getpid()}-{next(self._numbers)}"
        home = self._environ.get("HOME", "/")
        env = {name: value for name, value in self._environ.items() if _is_passed(name)}
        env |= {"FLYTUI_WAITING": str(count), "FLYTUI_RISK": risk.value, "FLYTUI_CALL_ID": call_id}
        return SpawnSpec(
            argv=tuple(word.replace("{count}", str(count)).replace("{risk}", risk.value) for word in command),
            cwd=home if os.path.isdir(home) else "/",
            env=env,
            call_id=call_id,
        )

    def _set_problem(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self._bus.publish(
                Event(cls=EventClass.APPROVAL, type="status.changed", at=self._clock.now(), payload={})
            )


def failure_message(ended: ChildExit) -> str:
    """Why the command did not do its work; empty where it did."""
    if ended.spawn_error is not None:
        return f"notify.command was not started: {ended.spawn_error.message}"
    if ended.timed_out:
        return f"notify.command took longer than {LIMITS.timeout_ms // 1000} s and was ended"
    if ended.output_limited:
        return "notify.command wrote without end and was ended"
    if ended.exit_code:
        words = " ".join(ended.stderr_tail.decode("utf-8", "replace").split())[-MOST_STDERR:]
        return f"notify.command failed with {ended.exit_code}{': ' if words else ''}{words}"
    return ""


def _is_passed(name: str) -> bool:
    return name in _PASSED or name.startswith("LC_")
