"""Calls that try to get past the person, or to take the kernel along."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask, LeaseTerms, Preview
from flycore.model.call import Progress
from flycore.model.enums import Choice, Code, Phase, RequestState, Risk, Status
from flycore.pipeline.call import Rejection
from flycore.pipeline.targets.window import (
    DesktopUnreadable,
    ProtectedWindows,
    Screenshot,
    Window,
    take_preview,
    window_displays,
)
from kits.kernel import (
    ECHO,
    Root,
    a_caller,
    answered_call,
    approve,
    approve_if_asked,
    approved_call,
    approver_of,
    kernel_of,
    request,
    tool,
    until,
    waiting_ask,
)

pytestmark = pytest.mark.anyio

ALLOW = {"tool": "*", "decision": "allow", "because": "test"}
SLOW = """#!/bin/sh
read -r request
exec sleep 60
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def configure(root: Root, **settings: Any) -> None:
    """The user's config.jsonc."""
    folder = root.base / "config" / "flytui"
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / "config.new"
    fresh.write_text(json.dumps(settings))
    fresh.rename(folder / "config.jsonc")


def deep(levels: int) -> Any:
    """A list in a list in a list …"""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


ODD_INPUTS = {
    "half a character": {"x": "\ud800"},
    "half a character as key": {"\udc00": 1},
    "no number": {"x": float("nan")},
    "infinity": {"x": [float("-inf")]},
    "no JSON at all": {"x": object()},
    "too deep": {"x": deep(100_000)},
}


@pytest.mark.parametrize("odd", ODD_INPUTS)
async def test_an_input_that_is_no_json_is_refused_and_harms_nobody(root: Root, odd: str) -> None:
    root.sidecar("echo", ECHO)
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "echo.do", ODD_INPUTS[odd]))
        assert result.error is not None
        assert (result.status, result.error.code) == (Status.FAILED, Code.INVALID_INPUT)
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS
    ends = [line for line in root.audit() if line["event"] == "TOOL_EXECUTED"]
    assert [line.get("code") for line in ends] == [Code.INVALID_INPUT, None]


async def test_a_fault_of_our_own_is_told_and_recorded_as_one(root: Root) -> None:
    root.sidecar("echo", ECHO)
    root.policy(ALLOW)

    def broken(progress: Progress) -> None:
        if progress.phase is Phase.RUNNING:
            raise ZeroDivisionError

    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "echo.do"), broken)
        assert result.error is not None
        assert result.error.details == {"code": "internal"}
        assert "ZeroDivisionError" in result.error.message
        assert kernel.activity()[0].result == result
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS
    ends = [line for line in root.audit() if line["event"] == "TOOL_EXECUTED"]
    assert [line.get("code") for line in ends] == [Code.FAILED, None]


async def lease(kernel: Kernel, ask: Ask) -> None:
    answer = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=9))
    assert (await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)).accepted


async def test_a_lease_for_a_medium_call_does_not_cover_one_the_user_rates_high(root: Root) -> None:
    root.sidecar("echo", ECHO)
    async with kernel_of(root) as kernel:
        await answered_call(kernel, lambda ask: lease(kernel, ask), "echo.do")
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS
        configure(root, risk={"echo.do": "high"})
        await until(lambda: _risk_of_new_call(root, kernel) is Risk.HIGH)
        result = await approved_call(kernel, "echo.do")
        assert result.status is Status.SUCCESS
    asked = [line["risk"] for line in root.audit() if line["event"] == "APPROVAL_ASKED"]
    assert asked == ["medium", "high"]


def _risk_of_new_call(root: Root, kernel: Kernel) -> Risk | None:
    return kernel._refresher.root_state.files.settings.risk.get("echo.do")


async def test_a_risk_that_rose_after_the_card_is_asked_again(root: Root) -> None:
    root.sidecar("echo", ECHO)
    async with kernel_of(root) as kernel:

        async def raise_then_approve(ask: Ask) -> None:
            configure(root, risk={"echo.do": "high"})
            await until(lambda: _risk_of_new_call(root, kernel) is Risk.HIGH)
            await approve(kernel, ask)
            again = await waiting_ask(kernel)
            assert again.request.risk is Risk.HIGH
            assert again.request.difference == ('- /risk: "medium"', '+ /risk: "high"')
            await approve(kernel, again)

        result = await answered_call(kernel, raise_then_approve, "echo.do")
    assert result.status is Status.SUCCESS


async def test_another_caller_cannot_use_a_lease_nor_replay_a_decision(root: Root) -> None:
    root.sidecar("echo", ECHO)
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        await answered_call(kernel, lambda ask: lease(kernel, ask), "echo.do")
        group.start_soon(kernel.call, request(kernel, "echo.do", caller=a_caller("agent", 4243)))
        ask = await waiting_ask(kernel)
        old = next(item for item in kernel.asks() if item.state is RequestState.APPROVED)
        answer = Answer(choice=Choice.APPROVE_ONCE)
        replays = [
            (old.request.id, old.request.subject_digest),
            (ask.request.id, old.request.subject_digest),
            (old.request.id, ask.request.subject_digest),
            (ask.request.id, ""),
            (ask.request.call_id, ask.request.subject_digest),
        ]
        for request_id, digest in replays:
            assert not (await approver_of(kernel).decide(request_id, digest, answer)).accepted
        assert kernel.status().waiting == 1
        group.cancel_scope.cancel()


async def test_every_request_that_was_asked_is_decided_in_the_record(root: Root) -> None:
    """One caller floods; another is asked at once; what never reached the queue says so."""
    root.sidecar("echo", ECHO)
    configure(root, quota={"running": 100, "callsPerMinute": 1000})
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(kernel.call, request(kernel, "echo.do", {"n": number}))
        await until(lambda: kernel.status().waiting == 5 and kernel.status().running == 5)
        group.start_soon(kernel.call, request(kernel, "echo.do", caller=a_caller("other", 7)))
        assert (await waiting_ask(kernel, 6)).request.caller.program == "other"
        group.cancel_scope.cancel()
    lines = root.audit()
    asked = [line["requestId"] for line in lines if line["event"] == "APPROVAL_ASKED"]
    decided = {line["requestId"]: line.get("code") for line in lines if line["event"] == "APPROVAL_DECIDED"}
    assert sorted(asked) == sorted(decided)
    assert sorted(decided.values()) == sorted([Code.QUEUE_FULL] * 25 + [Code.WITHDRAWN] * 6)


async def test_what_is_remembered_of_large_calls_is_bounded(root: Root) -> None:
    root.sidecar(
        "big",
        '#!/bin/sh\nhead -n 1 > /dev/null\nprintf \'{"ok": true, "x": "\'\n'
        "head -c 900000 /dev/zero | tr '\\0' x\nprintf '\"}\\n'\n",
    )
    root.policy(ALLOW)
    configure(root, quota={"running": 100, "callsPerMinute": 1000})
    async with kernel_of(root) as kernel:
        for number in range(20):
            result = await kernel.call(request(kernel, "big.do", {"n": number, "y": "y" * 900_000}))
            assert len(result.output["x"]) == 900_000
        kept = kernel.activity()
        assert len(kept) == 20
        assert len(msgspec.json.encode(kept)) < 9 * 1024 * 1024
        assert any("not kept here" in warning for warning in kept[0].result.warnings)
        assert (await kernel.call(request(kernel, "big.do"))).status is Status.SUCCESS


async def test_while_a_tool_has_the_desktop_nobody_approves_and_anybody_denies(root: Root) -> None:
    root.sidecar("typer", SLOW, tool("typer.type"), permissions={"desktop": True})
    root.sidecar("echo", ECHO)
    root.policy({**ALLOW, "tool": "typer.*"})
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        typing = request(kernel, "typer.type")
        group.start_soon(kernel.call, typing)
        await approve_if_asked(kernel, typing, lambda: kernel.status().hands_on)
        await until(lambda: kernel.status().hands_on)
        group.start_soon(kernel.call, request(kernel, "echo.do"))
        ask = await waiting_ask(kernel)
        digest = ask.request.subject_digest
        outcome = await approver_of(kernel).decide(ask.request.id, digest, Answer(choice=Choice.APPROVE_ONCE))
        assert "hands on the machine" in outcome.why_not
        kernel.cancel(typing.call_id)
        await until(lambda: kernel.status().running == 1)
        assert kernel.status().hands_on  # keys may still be on their way
        assert (await approver_of(kernel).decide(ask.request.id, digest, Answer(choice=Choice.DENY))).accepted
        await until(lambda: not kernel.status().hands_on)


class OneScreen:
    """A display on which a console takes the focus when somebody approves."""

    def __init__(self) -> None:
        self.titles = {1: "editor", 2: "console", 3: "popup"}
        self.front = 1
        self.stack: tuple[int, ...] = ()
        """Windows at any point, outermost first."""

    async def focused(self) -> Window | None:
        return await self.window(self.front)

    async def window(self, window_id: int) -> Window | None:
        title = self.titles.get(window_id)
        return None if title is None else Window(id=window_id, title=title, pid=window_id * 10)

    async def windows(self) -> tuple[Window, ...]:
        return tuple(Window(id=key, title=title) for key, title in self.titles.items())

    async def under(self, x: int, y: int) -> tuple[Window, ...]:
        return tuple(Window(id=key, title=self.titles.get(key, ""), pid=key * 10) for key in self.stack)

    async def shot_at(self, x: int, y: int) -> Screenshot:
        raise DesktopUnreadable("no picture in this test")

    async def shot_of(self, window_id: int) -> Screenshot:
        raise DesktopUnreadable("no picture in this test")


CLICK = {"action": "click", "x": 5, "y": 5}


async def test_what_lies_over_the_point_is_shown_and_bound_and_never_a_console() -> None:
    screen, seat = OneScreen(), ProtectedWindows(pids=(20,))
    screen.stack = (9, 1)
    plain = await take_preview(screen, seat, "computer.mouse", CLICK)
    assert isinstance(plain, Preview)
    assert (plain.title, plain.over) == ("editor", "")
    screen.stack = (9, 3)
    covered = await take_preview(screen, seat, "computer.mouse", CLICK)
    assert isinstance(covered, Preview)
    assert (covered.title, covered.over_id, covered.over) == ("editor", "3", "popup")
    screen.titles[3] = "pay now"
    again = await take_preview(screen, seat, "computer.mouse", CLICK, covered)
    assert isinstance(again, Preview)
    assert again.over == "pay now"
    screen.stack = (2,)  # the console comes to the front when somebody approves
    assert await take_preview(screen, seat, "computer.mouse", CLICK, plain) == plain
    refused = await take_preview(screen, seat, "computer.mouse", CLICK)
    assert isinstance(refused, Rejection)
    assert "console" in refused.message


async def test_the_window_that_had_the_focus_is_the_target_whoever_has_it_later() -> None:
    screen, seat = OneScreen(), ProtectedWindows(window_ids=(2,))
    first = await take_preview(screen, seat, "computer.keyboard", {})
    assert isinstance(first, Preview)
    screen.front = 2
    assert await take_preview(screen, seat, "computer.keyboard", {}, first) == first
    screen.titles[1] = "bank"
    changed = await take_preview(screen, seat, "computer.keyboard", {}, first)
    assert isinstance(changed, Preview)
    assert changed != first
    del screen.titles[1]
    gone = await take_preview(screen, seat, "computer.keyboard", {}, first)
    assert isinstance(gone, Rejection)
    assert "gone" in gone.message
    assert isinstance(await take_preview(screen, seat, "computer.keyboard", {}), Rejection)
    assert isinstance(await take_preview(screen, seat, "computer.keyboard", {"window": "console"}), Rejection)
    assert await take_preview(screen, seat, "file.hash", {}) is None


class ConsoleInFront(OneScreen):
    """A display on which a person has just decided: the console has the focus, and windows are behind it."""

    def __init__(self, *behind: int) -> None:
        super().__init__()
        self.front, self._behind = 2, behind

    async def focused(self) -> Window | None:
        rows = tuple(Window(id=key, title=self.titles.get(key, ""), pid=key * 10) for key in self._behind)
        return Window(id=2, title="console", pid=20, behind=rows)


async def test_a_console_in_front_is_looked_past_and_never_acted_on() -> None:
    seat = ProtectedWindows(window_ids=(2,), pids=(40,))
    screen = ConsoleInFront(4, 3, 1)
    screen.titles[4] = "the console's other window"
    seen = await take_preview(screen, seat, "computer.keyboard", {})
    assert isinstance(seen, Preview)
    assert (seen.window_id, seen.title) == ("3", "popup")
    assert await take_preview(screen, seat, "computer.keyboard", {}, seen) == seen
    screen.stack = (9, 1)
    there = await take_preview(screen, seat, "computer.mouse", CLICK)
    assert isinstance(there, Preview)
    assert there.title == "editor"
    screen.stack = (2,)
    for name, wanted in (("computer.mouse", CLICK), ("computer.keyboard", {"window": "console"})):
        refused = await take_preview(screen, seat, name, wanted)
        assert isinstance(refused, Rejection)
        assert (refused.code, "window" in refused.message) == (Code.INVALID_INPUT, True)
    alone = await take_preview(ConsoleInFront(4), seat, "computer.keyboard", {})
    assert isinstance(alone, Rejection)
    assert alone.message.startswith("name a window: the console has the focus")


SAME = [":7", ":7.1", "unix:7", "localhost:7.0", "", "no display"]


@pytest.mark.parametrize(("known", "same"), [(":7", SAME), ("", [":1", ":7"]), (None, [":1", ":7"])])
def test_a_window_of_a_console_counts_on_every_display_that_it_may_be_on(
    known: str | None, same: list[str]
) -> None:
    displays = {} if known is None else {2: (known,)}
    seat = ProtectedWindows(window_ids=(2,), pids=(40,), displays=displays)
    for name in same:
        assert seat.on_display(name).window_ids == (2,), name
    if known:
        other = seat.on_display(":77")
        assert (other.window_ids, other.pids) == ((), (40,))
        assert not other.contains(Window(id=2, title="another window of that id", pid=20))
        assert other.contains(Window(id=5, title="the console's", pid=40))


STARTED = """
import os, subprocess, sys
chosen = {**os.environ, "DISPLAY": sys.argv[1], "WINDOWID": "2"}
subprocess.run([sys.executable, "-c", sys.argv[2], *sys.argv[3:]], env=chosen)
"""
"""Starts a program in its window as a terminal does, but with another display in its environment."""
INSIDE = "import os, sys; print(os.getpid(), os.getppid(), flush=True); sys.stdin.read()"


@pytest.mark.parametrize(
    ("outer", "inner", "expected"), [(":1", ":2", ":1"), ("", ":2", ":2"), (":1.0", ":1.0", ":1.0")]
)
def test_a_window_is_on_the_display_of_the_program_that_opened_it(
    outer: str, inner: str, expected: str
) -> None:
    environ = {"PATH": "/usr/bin:/bin", **({"DISPLAY": outer} if outer else {})}
    argv = [sys.executable, "-c", STARTED, inner, INSIDE]
    with subprocess.Popen(argv, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as terminal:
        assert terminal.stdout is not None
        pids = [int(word) for word in terminal.stdout.readline().split()]
        assert window_displays((2, 3), pids) == {2: (expected,)}
        assert window_displays((2,), pids[1:]) == {}
        terminal.communicate(b"")


PHASES = {
    Phase.CHECKING: ECHO,
    Phase.WAITING_APPROVAL: ECHO,
    Phase.WAITING_GROUP: SLOW,
    Phase.RUNNING: SLOW,
}


@pytest.mark.parametrize("how", ["cancel", "stop", "gone"])
@pytest.mark.parametrize("phase", PHASES)
async def test_a_call_that_is_ended_in_any_phase_is_gone_and_recorded(
    root: Root, phase: Phase, how: str
) -> None:
    root.sidecar("it", PHASES[phase], tool("it.ask"), tool("it.free", exclusive="one"))
    root.policy({**ALLOW, "tool": "it.free"})
    name = "it.ask" if phase in (Phase.WAITING_APPROVAL, Phase.CHECKING) else "it.free"
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        if phase is Phase.WAITING_GROUP:
            group.start_soon(kernel.call, request(kernel, name, caller=a_caller("first", 1)))
            await until(lambda: any(call.phase is Phase.RUNNING for call in kernel.activity()))
        mine = request(kernel, name)
        scope = anyio.CancelScope()

        def end_it(progress: Progress | None = None) -> None:
            if progress is None or progress.phase is phase:
                if how == "cancel":
                    kernel.cancel(mine.call_id)
                elif how == "gone":
                    scope.cancel()
                else:
                    group.start_soon(kernel.stop)

        async def call() -> None:
            with scope:
                if phase is Phase.CHECKING:
                    group.start_soon(_soon, end_it)
                await kernel.call(mine, end_it)

        async with anyio.create_task_group() as one:
            one.start_soon(call)
        ended = next(call for call in kernel.activity() if call.call_id == mine.call_id)
        assert ended.result is not None
        assert ended.result.error is not None
        codes = {Code.CANCELLED}
        if how == "stop" and name == "it.ask":  # a stopping kernel tells whoever waits for a person
            # While it is checked, the call may or may not have come so far that it waits.
            codes = {Code.NO_APPROVER} if phase is Phase.WAITING_APPROVAL else {Code.NO_APPROVER, *codes}
        assert ended.result.error.code in codes
        assert kernel.status().waiting == 0
        group.cancel_scope.cancel()
    mine_lines = [line for line in root.audit() if line.get("callId") == mine.call_id]
    assert [line["event"] for line in mine_lines][-1] == "TOOL_EXECUTED"
    assert sum(line["event"] == "TOOL_EXECUTED" for line in mine_lines) == 1


async def _soon(end_it: Any) -> None:
    end_it()
