"""Notifications: when a request waits, the program that the person named in the settings is run.

The program gets the number of waiting requests and the highest risk among them, but nothing of their content.
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
"""The least time between two notifications; requests that arrive in between are counted in the next."""
LIMITS = RunLimits(timeout_ms=10_000, max_output_bytes=65_536)
MOST_STDERR = 200
_PASSED = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
        *("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY"),
    )
)
"""The variables that a program needs to reach the desktop. It gets no other variable of this process."""


class Notifier:
    """The runner of the notification command. `problem` is why its last run failed, else empty."""

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
        """Notify about requests until cancelled."""
        with self._bus.subscribe(frozenset((EventClass.APPROVAL,))) as events:
            async with anyio.create_task_group() as group:
                group.start_soon(self._notify)
                async for event in events:
                    if event.type in ("approval.asked", MISSED):
                        self._due.set()

    async def _notify(self) -> None:
        while True:
            await self._due.wait()
            # A new event before the requests are read: one that arrives from here on causes another round.
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
        """The command with `{count}` and `{risk}` filled in."""
        # It starts in the home folder: the project's folder may have a program of that name.
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
    """Say why the command failed; empty if it did not."""
    if ended.spawn_error is not None:
        return f"notify.command was not started: {ended.spawn_error.message}"
    if ended.timed_out:
        return f"notify.command took longer than {LIMITS.timeout_ms // 1000} s and was ended"
    if ended.output_limited:
        return "notify.command printed too much and was ended"
    if ended.exit_code:
        words = " ".join(ended.stderr_tail.decode("utf-8", "replace").split())[-MOST_STDERR:]
        return f"notify.command failed with {ended.exit_code}{': ' if words else ''}{words}"
    return ""


def _is_passed(name: str) -> bool:
    return name in _PASSED or name.startswith("LC_")
