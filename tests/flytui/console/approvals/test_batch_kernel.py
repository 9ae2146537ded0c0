"""Thirty requests at once from three callers, at a real kernel: each is decided or turned away."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import anyio
import pytest

from flycore.model.call import ToolResult
from flycore.model.enums import Code, Status
from flytui.console.app import FlytuiApp
from flytui.console.approvals.batch_screen import BatchScreen
from flytui.console.kernel_connection import OpenConnection
from flytui.console.screens.text_prompt import TextPromptScreen
from flytui.console.state import ConsoleState
from kits.attach import own_console
from kits.console import HandClock, drawn, press, read_through, until
from kits.kernel import PATIENCE, Root, a_caller, kernel_of, request, waiting_ask

pytestmark = pytest.mark.anyio
CALLERS = {name: a_caller(name, 100 + at) for at, name in enumerate(("one", "two", "three"))}
MARKS = """#!/bin/sh
read -r given
n=${{given#*'"n":'}}; n=${{n# }}; n=${{n%%[!0-9]*}}
echo "$n" >> "{marks}"
printf '{{"ok": true}}\\n'
"""


def is_armed_or_asked(app: FlytuiApp, screen: BatchScreen) -> bool:
    """Whether the card was painted, or the prompt for a reason is open."""
    return screen._card.arming.shown_at is not None or isinstance(app.screen, TextPromptScreen)


async def test_every_request_is_decided_or_turned_away_and_only_ticked_ones_run(tmp_path: Path) -> None:
    root = Root(tmp_path)
    marks = tmp_path / "marks"
    root.sidecar("echo", MARKS.format(marks=marks))
    results: dict[int, ToolResult] = {}
    async with kernel_of(root) as kernel, own_console(root, kernel) as (client, approver):
        clock = HandClock()
        desk = ConsoleState(connection=OpenConnection(client, approver), title="~/shop", clock=clock)
        app = FlytuiApp(desk)
        async with app.run_test(size=(100, 40)) as pilot, anyio.create_task_group() as group:

            async def call(number: int, name: str) -> None:
                results[number] = await kernel.call(
                    request(kernel, "echo.do", {"n": number}, caller=CALLERS[name])
                )

            for number in range(30):
                group.start_soon(call, number, tuple(CALLERS)[number % 3])
            await waiting_ask(kernel, 15)
            await until(pilot, lambda: len(desk.waiting) == 15 and len(results) == 15)
            await until(pilot, lambda: desk.status is not None and desk.status.turned_away == 15)
            await press(pilot, "escape", "2", "B")
            await until(pilot, lambda: isinstance(app.screen, BatchScreen))
            screen = app.screen
            assert isinstance(screen, BatchScreen)
            wanted = []
            for at in (0, 4, 7):
                await press(pilot, "home", *(["down"] * at))
                await until(pilot, lambda: screen._was_shown(screen._cursor))
                clock.advance(1)
                await press(pilot, "space")
                wanted.append(screen._asks[at].ask.request.subject.input["n"])
            assert len(screen._ticked) == 3
            await press(pilot, "A")
            await read_through(pilot, screen._card)
            clock.advance(5)
            await press(pilot, "a")
            await until(pilot, lambda: "3 requests approved once" in drawn(app, "#card-keys"))
            await until(pilot, lambda: len(screen._asks) == 12)
            while screen._asks:
                left = len(screen._asks)
                # A key that comes while the table changes does not count: the keys are armed anew then.
                while not isinstance(app.screen, TextPromptScreen):
                    await until(pilot, partial(is_armed_or_asked, app, screen))
                    clock.advance(1)  # little, or the requests would end by this clock
                    await press(pilot, "D")
                await press(pilot, *"no", "enter")
                await until(pilot, lambda left=left: app.screen is screen and len(screen._asks) < left)
            with anyio.fail_after(PATIENCE):
                while len(results) < 30:
                    await pilot.pause(0.01)
    ended = Counter(result.error.code if result.error else "" for result in results.values())
    assert ended == {Code.QUEUE_FULL: 15, Code.DENIED: 12, "": 3}
    assert {result.exit_status for result in results.values() if result.status is Status.DENIED} == {4, 10}
    assert sorted(marks.read_text().split()) == sorted(str(number) for number in wanted)
    reasons = [result.error.message for result in results.values() if result.error]
    assert sum("denied by a person: no" in reason for reason in reasons) == 12
