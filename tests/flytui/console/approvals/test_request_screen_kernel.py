"""The card's answers at a real kernel: what a person presses is what callers meet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from textual.pilot import Pilot
from textual.widgets import TextArea

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import Caller, ToolResult
from flycore.model.enums import RequestState, Status
from flycore.model.json import JsonObject
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.kernel_connection import OpenConnection
from flytui.console.screens.armed import ArmedLines
from flytui.console.state import ConsoleState
from kits.attach import own_console
from kits.console import HandClock, drawn, press
from kits.kernel import PATIENCE, Root, a_caller, kernel_of, request

pytestmark = pytest.mark.anyio
ECHO = """#!/bin/sh
read -r given
printf '{"ok": true, "said": "hello"}\\n'
"""
TOOL = "echo.do"
T = TypeVar("T")
TWO = {"properties": {"word": {"const": "two"}}, "required": ["word"]}


class Scene:
    """A kernel, its console, and a clock that the test moves."""

    def __init__(self, kernel: Kernel, app: FlytuiApp, pilot: Pilot[None], clock: HandClock) -> None:
        self.kernel = kernel
        self.app = app
        self.pilot = pilot
        self.clock = clock

    async def call(self, input: JsonObject | None = None, caller: Caller | None = None) -> ToolResult:
        """A caller's call; waits for whoever decides."""
        with anyio.fail_after(PATIENCE):
            return await self.kernel.call(
                request(self.kernel, TOOL, input or {"word": "one"}, caller=caller or a_caller())
            )

    async def until(self, holds: Callable[[], T]) -> T:
        """Give console and kernel their turns until something holds; what it gave."""
        with anyio.fail_after(PATIENCE):
            while not (found := holds()):
                await self.pilot.pause(0.01)
        return found

    async def card(self) -> None:
        """The card of the request that waits is on screen, read and armed."""
        [ask] = await self.until(lambda: [one for one in self.kernel.asks() if _waits(one)])
        await self.until(lambda: self.app.state.ask(ask.request.id))
        while not (isinstance(self.app.screen, RequestScreen) and self.app.screen._ask == ask):
            await press(self.pilot, "n" if isinstance(self.app.screen, RequestScreen) else "ctrl+o")
        await self.until(self._armed)
        await self.read()

    async def read(self) -> None:
        """What is on screen has been read, and its keys count."""
        await self.until(lambda: all(item.arming.shown_at is not None for item in self._armed()))
        await press(self.pilot, "end")
        await self.until(lambda: all(item.arming.end_seen for item in self._armed()))
        self.clock.advance(5)

    def _armed(self) -> list[ArmedLines]:
        return list(self.app.screen.query(ArmedLines))


@asynccontextmanager
async def scene(base: Path, *rules: dict[str, object]) -> AsyncIterator[Scene]:
    """A root with one tool that asks, and the console beside it."""
    root = Root(base)
    root.sidecar("echo", ECHO)
    if rules:
        root.policy(*rules)
    async with kernel_of(root) as kernel, own_console(root, kernel) as (client, approver):
        clock = HandClock()
        desk = ConsoleState(connection=OpenConnection(client, approver), title="~/shop", clock=clock)
        app = FlytuiApp(desk)
        async with app.run_test(size=(100, 40)) as pilot:
            place = Scene(kernel, app, pilot, clock)
            await place.until(lambda: app.state.catalog is not None)
            yield place


async def answered(place: Scene, answer: Callable[[], Awaitable[None]], **more: object) -> ToolResult:
    """A call, and what a person does about it."""
    results: list[ToolResult] = []

    async def call() -> None:
        results.append(await place.call(**more))  # type: ignore[arg-type]  # the call's own words

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await place.card()
            await answer()
    return results[0]


async def test_a_lease_made_with_keys_lets_such_calls_through_and_no_others(tmp_path: Path) -> None:
    async with scene(tmp_path) as place:

        async def lease() -> None:
            await press(place.pilot, "l", "e", "down", "down", "down", "space", "enter")
            await place.read()
            await press(place.pilot, "a")

        first = await answered(place, lease)
        assert first.status is Status.SUCCESS, first.error
        [held] = place.kernel.leases()
        assert held.condition == {"properties": {"word": {"const": "one"}}, "required": ["word"]}
        assert (await place.call()).status is Status.SUCCESS

        async def deny() -> None:
            await press(place.pilot, "d")

        assert (await answered(place, deny, input={"word": "two"})).status is Status.DENIED


async def test_a_rule_made_with_keys_stands_in_the_policy_file_and_counts(tmp_path: Path) -> None:
    async with scene(tmp_path) as place:

        async def rule() -> None:
            await press(place.pilot, "u", "right", "down", "down", "right", "tab", *"never", "enter")
            await place.read()
            await press(place.pilot, "a")

        first = await answered(place, rule)
        assert first.status is Status.DENIED
        [written] = await place.app.state.client.rules()
        assert (written.tool, written.decision, written.because) == (TOOL, "deny", "never")
        assert written.caller == ""
        assert written.expires is not None
        await place.until(lambda: _decision(place.kernel) == "deny")
        again = await place.call()
        assert (again.status, again.error and again.error.code) == (Status.DENIED, "policy")


async def test_a_rule_that_could_not_be_written_leaves_the_request_waiting(tmp_path: Path) -> None:
    async with scene(tmp_path) as place:
        policy = tmp_path / "config" / "flytui"
        policy.mkdir(parents=True, exist_ok=True)
        (policy / "policy.jsonc").write_text("{ broken")

        async def rule_then_deny() -> None:
            await press(place.pilot, "u", "right", "tab", "x", "enter")
            await place.read()
            await press(place.pilot, "a")
            await place.until(
                lambda: "does not parse" in place.app.export_screenshot().replace("&#160;", " ")
            )
            assert len(place.app.state.waiting) == 1
            await press(place.pilot, "escape")
            await place.card()
            await press(place.pilot, "d")

        assert (await answered(place, rule_then_deny)).status is Status.DENIED
        assert (policy / "policy.jsonc").read_text() == "{ broken"


async def test_a_blocked_tool_is_refused_to_every_caller(tmp_path: Path) -> None:
    async with scene(tmp_path) as place:

        async def block() -> None:
            await press(place.pilot, "b")
            place.clock.advance(1)
            await press(place.pilot, "b")

        first = await answered(place, block)
        assert first.status is Status.DENIED
        other = await place.call(caller=a_caller("other", 77))
        assert other.error is not None
        assert other.error.code == "blocked"


async def test_an_edited_input_is_judged_anew_runs_as_approved_and_the_caller_is_told(tmp_path: Path) -> None:
    denied = {"tool": TOOL, "when": TWO, "decision": "deny", "because": "not two"}
    async with scene(tmp_path, denied) as place:

        async def edit() -> None:
            await press(place.pilot, "e")
            area = place.app.screen.query_one(TextArea)
            area.text = '{"word": "two"}'
            await press(place.pilot, "f2")
            await place.until(lambda: "✗" in drawn(place.app, "#edit-keys"))
            assert place.kernel.asks()[0].request.subject.input == {"word": "one"}
            area.text = '{"word": "three"}'
            await press(place.pilot, "f2")
            await place.until(lambda: isinstance(place.app.screen, RequestScreen))
            await place.until(lambda: "edited by you" in drawn(place.app, "#card"))
            await place.read()
            await press(place.pilot, "a")

        result = await answered(place, edit)
        assert result.status is Status.SUCCESS, result.error
        assert any('{"word":"three"}' in warning for warning in result.warnings), result.warnings


async def test_held_is_released_and_a_refusal_for_ten_minutes_is_not_asked_again(tmp_path: Path) -> None:
    async with scene(tmp_path) as place:

        async def hold_and_deny() -> None:
            await press(place.pilot, "h")
            await place.until(lambda: "held" in drawn(place.app, "#card-title"))
            assert place.kernel.asks()[0].held
            await press(place.pilot, "h")
            await place.until(lambda: "held" not in drawn(place.app, "#card-title"))
            await press(place.pilot, "t")

        assert (await answered(place, hold_and_deny)).status is Status.DENIED
        assert (await place.call({"word": "two"})).status is Status.DENIED
        assert len(place.kernel.asks()) == 1


def _waits(ask: Ask) -> bool:
    return ask.state is RequestState.WAITING


def _decision(kernel: Kernel) -> str:
    view = kernel.catalog().capability(TOOL)
    return "" if view is None else str(view.decision)
