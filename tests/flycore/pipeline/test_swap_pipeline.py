"""Suite S6, swap race: something is another between the decision and the start, and never the wrong runs.

The test holds the tool's exclusive group, so that an approved call stands exactly there while the swap is
made. What a thread can swap at any moment is in `tests/flycore/sandbox/test_swap_races.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask
from flycore.model.call import CallRequest, ToolResult
from flycore.model.enums import Choice, Code, Level, Phase, RequestState, Status
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import SandboxReport
from flycore.pipeline.targets.window import DesktopUnreadable, Screenshot, Window
from flycore.sandbox.detection import SandboxSupport
from flycore.sandbox.levels import report
from kits.kernel import (
    PATIENCE,
    STARTS_DELEGATE,
    Root,
    a_caller,
    approve,
    approver_of,
    kernel_of,
    request,
    tool,
    until,
)

pytestmark = [pytest.mark.anyio, pytest.mark.suite]

ROUNDS = 500 if os.environ.get("FLYTUI_SUITES") == "full" else 20
SAYS = """#!/bin/sh
read -r request
printf '{{"ok": true, "version": "{0}", "got": %s}}\\n' "$request"
"""


@dataclass
class Stage:
    """One kernel's world as the scenes turn it. `state` is the number of the version that is in place."""

    root: Root
    monkeypatch: pytest.MonkeyPatch
    name: str = "it.do"
    state: int = 0
    level: Level = Level.HOST_CONTROL
    title: str = "window 0"
    given: dict[str, Any] = field(default_factory=dict)
    swap: Callable[[Kernel, int], Awaitable[None]] | None = None
    ran: Callable[[dict[str, Any]], object] = lambda output: None
    """What tells the version in a result's output; None where the program cannot see it."""

    async def reread(self, kernel: Kernel) -> None:
        """Files were changed: wait until they count."""
        kernel._refresher.reload()
        await kernel._refresher.refresh()

    def report(self, entry: SidecarEntry, support: SandboxSupport, *, bundled: bool) -> SandboxReport:
        """The sandbox as it is found now."""
        return msgspec.structs.replace(report(entry, support, bundled=bundled), level=self.level)

    async def focused(self) -> Window | None:
        return await self.window(7)

    async def window(self, window_id: int) -> Window | None:
        return Window(id=7, title=self.title, pid=70)

    async def windows(self) -> tuple[Window, ...]:
        return (Window(id=7, title=self.title, pid=70),)

    async def under(self, x: int, y: int) -> tuple[Window, ...]:
        return await self.windows()

    async def shot_at(self, x: int, y: int) -> Screenshot:
        return await self.shot_of(7)

    async def shot_of(self, window_id: int) -> Screenshot:
        raise DesktopUnreadable("no picture in this test")


def one(name: str = "it.do") -> dict[str, Any]:
    return tool(name, exclusive="one")


def program(stage: Stage) -> None:
    path = stage.root.sidecar("it", SAYS.format(0), one())

    async def swap(kernel: Kernel, state: int) -> None:
        path.write_text(SAYS.format(state))

    stage.swap, stage.ran = swap, lambda output: int(output["version"])


def delegate(stage: Stage) -> None:
    hand = stage.root.folder / "tools" / "hand" / "run"
    hand.parent.mkdir()
    hand.write_text(SAYS.format(0))
    hand.chmod(0o755)
    stage.root.sidecar("it", STARTS_DELEGATE, one(), delegates={"hand": {"command": "./tools/hand/run"}})

    async def swap(kernel: Kernel, state: int) -> None:
        hand.write_text(SAYS.format(state))

    stage.swap, stage.ran = swap, lambda output: int(output["version"])


def input_of_the_caller(stage: Stage) -> None:
    """The caller keeps its hands on the very object that it handed in."""
    stage.root.sidecar("it", SAYS.format(0), one())
    stage.given = {"n": 0, "deep": {"n": [0]}}

    async def swap(kernel: Kernel, state: int) -> None:
        stage.given["n"], stage.given["deep"]["n"][0] = state, state

    def ran(output: dict[str, Any]) -> object:
        given = output["got"]["input"]
        assert given["deep"]["n"] == [given["n"]]
        return given["n"]

    stage.swap, stage.ran = swap, ran


def entry(stage: Stage) -> None:
    stage.root.sidecar("it", SAYS.format(0), one(), config={"v": 0})

    async def swap(kernel: Kernel, state: int) -> None:
        stage.root.sidecars["it"]["config"] = {"v": state}
        stage.root.write()
        await stage.reread(kernel)
        waiting = kernel.pending_trust()
        await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in waiting))

    stage.swap, stage.ran = swap, lambda output: output["got"]["config"]["v"]


def policy(stage: Stage) -> None:
    stage.root.sidecar("it", SAYS.format(0), one())

    async def swap(kernel: Kernel, state: int) -> None:
        stage.root.policy({"tool": "it.do", "decision": "ask", "because": f"version {state}"})
        await stage.reread(kernel)

    stage.swap = swap


def level(stage: Stage) -> None:
    stage.root.sidecar("it", SAYS.format(0), one())
    stage.monkeypatch.setattr("flycore.pipeline.prepare.report", stage.report)

    async def swap(kernel: Kernel, state: int) -> None:
        stage.level = (Level.HOST_CONTROL, Level.NONE)[state % 2]

    stage.swap = swap


def preview(stage: Stage) -> None:
    stage.name = "computer.keyboard"
    stage.given = {"action": "type", "text": "hello"}
    described = {"permissions": {"desktop": True}, "tools": [stage.name]}
    stage.root.sidecar("it", SAYS.format(0), **described)
    stage.root.sidecars["it"] |= described
    stage.root.write()
    stage.monkeypatch.setattr("flycore.kernel.compose.X11Desktop", lambda environ: stage)
    stage.monkeypatch.setattr("flycore.approval.desktop_control.AFTER_SECONDS", 0.0)

    async def swap(kernel: Kernel, state: int) -> None:
        stage.title = f"window {state}"

    stage.swap = swap


SCENES = [program, delegate, input_of_the_caller, entry, policy, level, preview]


class Round:
    """One call: approved, swapped while it waits for its group, and what came of it."""

    def __init__(self, stage: Stage, kernel: Kernel, number: int) -> None:
        self.stage, self.kernel = stage, kernel
        self.caller = a_caller(f"agent{number}", 10_000 + number)
        self.result: ToolResult | None = None
        self.approved: list[tuple[Ask, int]] = []

    async def play(self, again: bool) -> None:
        """`again`: a second card is approved, too; else it is refused."""
        stage, kernel = self.stage, self.kernel
        wanted = request(kernel, stage.name, stage.given, caller=self.caller)
        found = kernel.catalog().capability(stage.name)
        assert found is not None
        async with anyio.create_task_group() as group:
            async with kernel._context.slots.groups.acquire(found.capability.exclusive):
                group.start_soon(self._call, wanted)
                await self._approve(await self._card())
                await until(lambda: self._phase(wanted) is Phase.WAITING_GROUP)
                assert stage.swap is not None
                stage.state += 1
                await stage.swap(kernel, stage.state)
            await until(lambda: self.result is not None or self._waiting())
            if self.result is None:
                card = await self._card()
                assert card.request.difference
                if again:
                    await self._approve(card)
                else:
                    deny = Answer(choice=Choice.DENY)
                    await approver_of(kernel).decide(card.request.id, card.request.subject_digest, deny)
            await until(lambda: self.result)

    async def _call(self, wanted: CallRequest) -> None:
        self.result = await self.kernel.call(wanted)

    async def _card(self) -> Ask:
        ask: Ask = await until(lambda: next(iter(self._waiting()), None))
        return ask

    async def _approve(self, ask: Ask) -> None:
        self.approved.append((ask, self.stage.state))
        await approve(self.kernel, ask)

    def _waiting(self) -> list[Ask]:
        mine = [ask for ask in self.kernel.asks() if ask.request.caller == self.caller]
        return [ask for ask in mine if ask.state is RequestState.WAITING]

    def _phase(self, wanted: CallRequest) -> Phase | None:
        calls = self.kernel.activity()
        return next((call.phase for call in calls if call.call_id == wanted.call_id), None)


@pytest.mark.parametrize("scene", SCENES)
async def test_nothing_runs_but_what_the_last_approved_card_showed(
    scene: Callable[[Stage], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    config = tmp_path / "config" / "flytui"
    config.mkdir(parents=True)
    # One of the levels that a scene pretends is below the minimum of a program that is not flytui's own.
    settings = {"quota": {"highRiskPerSession": 10000}, "sandbox": {"minimum": {"it.do": "none"}}}
    (config / "config.jsonc").write_text(json.dumps(settings))
    stage = Stage(root, monkeypatch)
    scene(stage)
    played: list[Round] = []
    async with kernel_of(root) as kernel:
        with anyio.fail_after(PATIENCE + ROUNDS):
            for number in range(ROUNDS):
                played.append(Round(stage, kernel, number))
                await played[-1].play(again=number % 4 == 0)
    started = {line["callId"]: line for line in root.audit() if line["event"] == "TOOL_STARTED"}
    ran = 0
    for turn in played:
        result = turn.result
        assert result is not None
        ask, state = turn.approved[-1]
        if result.status is Status.SUCCESS:
            ran += 1
            assert started[result.call_id]["subject"] == ask.request.subject_digest
            assert stage.ran(result.output) in (None, state)
        else:
            assert (result.error and result.error.code) == Code.DENIED, result
            assert result.call_id not in started
    assert ran >= ROUNDS // 4
    assert len(started) == ran
    if scene is not input_of_the_caller:
        assert ran == len([turn for turn in played if len(turn.approved) == 2])
