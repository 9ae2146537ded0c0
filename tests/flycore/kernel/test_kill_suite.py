"""S4: kill -9 of whatever holds the root, and of the sidecar, in every phase of a call.

What has to hold afterwards, wherever the blow fell: the launcher of the killed kernel ends what that has
started, and where it was killed, too, the next kernel does; every call that had started and has no end gets
exactly one line that its outcome is not known, tickets are back, and the log is whole.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.audit.verify import verify
from flycore.kernel.crash_recovery import find_leftover_processes
from flycore.kernel.lock import read_holder
from flycore.model.diagnostics import CheckState
from flycore.model.enums import Code, Level, RequestState, Status
from flycore.model.session import session_of
from flysafe.procfs import (
    Process,
    children_of,
    descendants,
    process_table,
)
from kits.command_line import Terminal, until
from kits.console_processes import (
    gone,
    is_observer,
    is_of_launcher,
    kill_launcher,
    kill_with_kernel,
    launcher_of,
    processes_of,
    still_runs,
)
from kits.kernel import Root, kernel_of, tool
from kits.kernel import until as until_so
from kits.sandbox_levels import LEVELS, LevelDesk, needs_level

pytestmark = [pytest.mark.suite, pytest.mark.timeout(900)]
FULL = os.environ.get("FLYTUI_SUITES") == "full"
ROUNDS = 5 if FULL else 1

FAMILY = """
sleep 1000 &
setsid sleep 1000 &
env -i setsid sh -c 'sleep 1000 & sleep 1000' &
( sleep 1000 </dev/null >/dev/null 2>&1 & )
"""
TREE = f"""#!/bin/sh
read -r request
{FAMILY}
touch {{base}}/running
wait
"""
ANSWERS = f"""#!/bin/sh
read -r request
{FAMILY}
printf '{{{{"ok": true}}}}\\n'
touch {{base}}/answered
wait
"""
STAYS = f"""#!/bin/sh
read -r request
{FAMILY}
touch {{base}}/running
wait
"""


class Scene:
    """A root with tools that start a family of processes and then stay."""

    def __init__(self, base: Path, level: Level) -> None:
        self.level = level
        self.root = root = Root(base)
        tools = {"tree": TREE, "answer": ANSWERS, "stay": STAYS}
        for name, script in tools.items():
            kind = {"kind": "process-json-persistent"} if name == "stay" else {}
            exclusive = {"exclusive": "hands"} if name == "tree" else {}
            root.sidecar(name, script.format(base=base), tool(f"{name}.do", **exclusive), **kind)
        root.sidecar("next", TREE.format(base=base), tool("next.do", exclusive="hands"))
        root.sidecar("ask", TREE.format(base=base), tool("ask.do", risk="high"))
        root.policy(
            *({"tool": f"{name}.do", "decision": "allow", "because": "test"} for name in (*tools, "next"))
        )
        root.settings(sandbox={"minimum": {f"{name}.do": "none" for name in (*tools, "next", "ask")}})
        self.desk = LevelDesk(root.folder, base, forked=False, level=level, by_rule=True)
        anyio.run(self._trust)

    async def _trust(self) -> None:
        async with kernel_of(self.root):
            pass

    def kernel(self) -> int:
        """The process of the kernel that a command has started."""
        found: list[int] = []

        def held() -> bool:
            holder = read_holder(self.root.places)
            found[:] = [holder.pid] if holder is not None and holder.on_demand else []
            return bool(found)

        until("the kernel", held)
        return found[0]

    def kill_kernel(self, command: subprocess.Popen[bytes]) -> None:
        """Kill the kernel of a command, and then the command, which would look for the next kernel."""
        command.send_signal(signal.SIGSTOP)
        holder = read_holder(self.root.places)
        if holder is not None:
            observers = observers_of(holder.pid)
            # It holds the lock until it has ended.
            with suppress(ProcessLookupError):
                kernel = os.pidfd_open(holder.pid)
                signal.pidfd_send_signal(kernel, signal.SIGKILL)
                select.select([kernel], [], [], 60)
                os.close(kernel)
            until("its observer has ended", lambda: all(map(gone, observers)))
        command.kill()
        command.communicate(timeout=60)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Whole lines of the log with that event, as far as they are written."""
        found = []
        for file in sorted((self.root.places.audit_dir).glob("*.jsonl")):
            found += [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]
        return [line for line in found if line["event"] == event]

    def reached(self, phase: str) -> bool:
        """Whether the call has come so far."""
        base = self.root.base
        match phase:
            case "called":
                return bool(self.lines("TOOL_CALLED"))
            case "started":
                return bool(self.lines("TOOL_STARTED"))
            case "group":
                return (base / "running").exists() and len(self.lines("TOOL_CALLED")) == 2
            case "asked":
                return bool(self.lines("APPROVAL_ASKED"))
            case "answering":
                return (base / "answered").exists()
            case _:
                return (base / "running").exists()

    def started_calls(self) -> set[str]:
        """Calls that have started and have no end."""
        begun = {line["callId"] for line in self.lines("TOOL_STARTED")}
        return begun - {line["callId"] for line in self.lines("TOOL_EXECUTED")}

    def assert_ended(self, family: list[Process]) -> None:
        """Nobody of the call outlives its kernel, although no other kernel is there yet."""
        until("what the kernel left has ended", lambda: not any(map(still_runs, family)))
        until("nobody is left", lambda: self.desk.survivors() == [])

    def assert_settled(self, survivors: int = 0) -> None:
        """The next kernel finds and tells everything; one more has nothing to add. `survivors`: how many
        there have to be before it, so that its work is not nothing."""
        sessions = {session_of(line["callId"]) for line in self.lines("TOOL_CALLED")}
        assert len(find_leftover_processes(sessions)) >= survivors
        open_calls = self.started_calls()
        anyio.run(self._settle, sessions, open_calls)
        told = [line["callId"] for line in self.lines("TOOL_OUTCOME_UNKNOWN")]
        assert sorted(told) == sorted(open_calls)
        assert self.desk.survivors() == []
        anyio.run(self._settle, sessions, open_calls)
        assert len(self.lines("TOOL_OUTCOME_UNKNOWN")) == len(open_calls)
        places = self.root.places
        anchors = places.anchors_file
        assert verify(places.audit_dir, anchors).whole

    async def _settle(self, sessions: set[str], open_calls: set[str]) -> None:
        async with kernel_of(self.root) as kernel:
            assert find_leftover_processes(sessions) == []
            await kernel.call_history.ready()
            await until_so(lambda: len(self.lines("TOOL_OUTCOME_UNKNOWN")) >= len(open_calls))
            results = {call.call_id: call.result for call in kernel.activity()}
            for call_id in open_calls:
                result = results[call_id]
                assert result is not None
                assert result.status is Status.UNKNOWN
                assert result.error is not None
                assert result.error.code == Code.OUTCOME_UNKNOWN
            (check,) = [check for check in await kernel.checks() if check.name == "outcomes"]
            assert (check.state is CheckState.WARN) == bool(open_calls)


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    level: Level = getattr(request, "param", Level.NONE)
    needs_level(level)
    return Scene(tmp_path, level)


at_levels = pytest.mark.parametrize("scene", LEVELS if FULL else (Level.NONE,), indirect=True)
"""Without a sandbox at quick size: there the system ends nothing by itself."""


def call_directly(scene: Scene, name: str) -> subprocess.Popen[bytes]:
    """`flytui call` without a kernel: it starts one."""
    return scene.desk.start("call", name, "{}", "--json")


def call_over_mcp(scene: Scene, name: str) -> subprocess.Popen[bytes]:
    """`flytui mcp` without a kernel, after a call that nobody waits for."""
    desk = scene.desk
    process = subprocess.Popen(
        desk.argv("mcp"),
        env=desk.environ,
        cwd=desk.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "s4", "version": "1"},
    }
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": name.replace(".", "_"), "arguments": {}}},
    ]
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()
    return process


DOORS: dict[str, Callable[[Scene, str], subprocess.Popen[bytes]]] = {
    "call": call_directly,
    "mcp": call_over_mcp,
}
BLOWS = [
    ("call", "called", "tree.do", 0),
    ("call", "started", "tree.do", 0),
    ("call", "running", "tree.do", 4),
    ("call", "running", "stay.do", 4),
    ("call", "answering", "answer.do", 4),
    ("mcp", "running", "tree.do", 4),
]
MORE_BLOWS = [
    ("mcp", "called", "tree.do", 0),
    ("mcp", "started", "tree.do", 0),
    ("mcp", "running", "stay.do", 4),
    ("mcp", "answering", "answer.do", 4),
]


@at_levels
@pytest.mark.parametrize(("door", "phase", "name", "survivors"), [*BLOWS, *(MORE_BLOWS if FULL else ())])
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_kernel_on_demand_is_killed(
    scene: Scene, door: str, phase: str, name: str, survivors: int, number: int
) -> None:
    process = DOORS[door](scene, name)
    family: list[Process] = []
    try:
        until(phase, lambda: scene.reached(phase))
        family = family_of(scene.kernel(), survivors)
    finally:
        scene.kill_kernel(process)
    scene.assert_ended(family)
    scene.assert_settled()


@at_levels
@pytest.mark.parametrize(("phase", "survivors"), [("started", 0), ("running", 4)])
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_kernel_is_killed_together_with_its_launcher(
    scene: Scene, phase: str, survivors: int, number: int
) -> None:
    process = call_directly(scene, "tree.do")
    try:
        until(phase, lambda: scene.reached(phase))
        family_of(scene.kernel(), survivors)
        # Stopped, so that it does not start another one.
        os.kill(scene.kernel(), signal.SIGSTOP)
        kill_launcher(scene.kernel())
    finally:
        scene.kill_kernel(process)
    # A process namespace ends with the process that made it, so that the next kernel finds nobody. One that
    # is being set up may stay, and the next kernel finds it by its environment.
    scene.assert_settled(0 if scene.level is Level.ENFORCED else survivors)


@at_levels
@pytest.mark.parametrize("name", ["tree.do", "stay.do"])
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_launcher_is_killed_and_the_next_one_knows_its_children(
    scene: Scene, name: str, number: int
) -> None:
    process = call_directly(scene, name)
    family: list[Process] = []
    try:
        until("running", lambda: scene.reached("running"))
        family = family_of(scene.kernel(), 4)
        old = launcher_of(scene.kernel())
        os.kill(old, signal.SIGKILL)
        until("another launcher", lambda: launcher_of(scene.kernel()) not in (0, old))
        assert all(map(still_runs, family))
    finally:
        scene.kill_kernel(process)
    scene.assert_ended(family)
    scene.assert_settled()


@at_levels
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_launcher_is_killed_and_its_kernel_still_ends_trees(scene: Scene, number: int) -> None:
    process = call_directly(scene, "tree.do")
    try:
        until("running", lambda: scene.reached("running"))
        family = family_of(scene.kernel(), 4)
        kill_launcher(scene.kernel())
        os.kill(family[0].pid, signal.SIGKILL)
        result = json.loads(process.communicate(timeout=60)[0])
    finally:
        scene.kill_kernel(process)
    assert result["status"] == "failed"
    assert not any(map(still_runs, family))
    assert scene.desk.survivors() == []
    scene.assert_settled()


@pytest.mark.parametrize("victim", ["kernel", "launcher", "bwrap", "observer"])
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("scene", [Level.ENFORCED], indirect=True)
def test_a_confined_call_leaves_nobody(scene: Scene, victim: str, number: int) -> None:
    out = scene.root.folder / "out"
    out.mkdir()
    script = TREE.format(base=out)
    scene.root.sidecar("bound", script, tool("bound.do"), permissions={"fs": {"write": ["out"]}})
    scene.root.policy({"tool": "bound.do", "decision": "allow", "because": "test"})
    scene.desk.trust()
    process = call_directly(scene, "bound.do")
    try:
        until("running", (out / "running").exists)
        # bwrap, its first process, the sidecar, and what that started.
        family = family_of(scene.kernel(), 6)
        if victim == "launcher":
            kill_launcher(scene.kernel())
        if victim == "observer":
            (struck,) = observers_of(scene.kernel())
        else:
            struck = scene.kernel() if victim == "kernel" else family[0].pid
        os.kill(struck, signal.SIGKILL)
        written = process.communicate(timeout=60)[0]
    finally:
        scene.kill_kernel(process)
    scene.assert_ended(family)
    if victim != "kernel":
        assert json.loads(written)["status"] != "success"
    scene.assert_settled()


def observers_of(kernel: int) -> list[int]:
    """The observer of that kernel, if it has one."""
    return [pid for pid in children_of(kernel) if is_observer(pid) and not gone(pid)]


def family_of(kernel: int, most: int) -> list[Process]:
    """What the kernel has started, without its launcher and its observer, once it is at least so many: the
    leader first."""
    found: list[Process] = []

    def complete() -> bool:
        table = process_table()
        started = descendants([kernel], table)[1:]
        children = [pid for pid in started if not (is_of_launcher(pid) or is_observer(pid))]
        found[:] = [table[pid] for pid in children if not table[pid].ended]
        return len(found) >= most

    until("the call's processes", complete)
    return found


@contextmanager
def console(scene: Scene) -> Iterator[Terminal]:
    """A console whose kernel takes calls; read while it is waited for."""
    places = scene.root.places
    with scene.desk.terminal() as shown:

        def ready() -> bool:
            holder = read_holder(places)
            kernel = processes_of(shown.process.pid).kernel
            return holder is not None and holder.pid == kernel and places.socket.exists()

        shown.until_so("the console's kernel", ready)
        yield shown


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_served_kernel_is_killed_and_its_caller_is_told(scene: Scene, number: int) -> None:
    places = scene.root.places
    kernel = scene.desk.start("serve")
    try:
        until("the served kernel", lambda: places.socket.exists())
        caller = scene.desk.start("call", "tree.do", "{}", "--json")
        until("running", lambda: scene.reached("running"))
        family = family_of(kernel.pid, 4)
    finally:
        kernel.kill()
        kernel.communicate(timeout=60)
    told = json.loads(caller.communicate(timeout=60)[0])
    assert (told["status"], told["error"]["code"]) == ("unknown", "outcome-unknown")
    assert caller.returncode == 7
    scene.assert_ended(family)
    scene.assert_settled()


@pytest.mark.parametrize("phase", ["running", "group", *(("called", "started") if FULL else ())])
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_console_is_killed_and_its_callers_are_told(scene: Scene, phase: str, number: int) -> None:
    with console(scene) as shown:
        callers = [scene.desk.start("call", "tree.do", "{}", "--json")]
        if phase == "group":
            shown.until_so("the first runs", lambda: scene.reached("running"))
            callers.append(scene.desk.start("call", "next.do", "{}", "--json"))
        shown.until_so(phase, lambda: scene.reached(phase))
        kill_with_kernel(shown.process.pid, lambda: shown.read(0.0))
    told = json.loads(callers[0].communicate(timeout=60)[0])
    if phase in ("running", "group"):
        assert (told["status"], told["error"]["code"]) == ("unknown", "outcome-unknown")
        assert callers[0].returncode == 7
    for caller in callers[1:]:  # it had not started: it may have gone on in a kernel of its own
        caller.kill()
        caller.communicate(timeout=60)
    scene.assert_ended([])
    scene.assert_settled()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_ticket_is_back_after_its_console_was_killed(scene: Scene, number: int) -> None:
    with console(scene) as shown:
        caller = scene.desk.start("call", "ask.do", "{}", "--json", "--no-wait")
        shown.until_so("the caller has its ticket", lambda: caller.poll() is not None)
        ticket = json.loads(caller.communicate(timeout=60)[0])
        assert ticket["status"] == "pending"
        kill_with_kernel(shown.process.pid, lambda: shown.read(0.0))

    async def back() -> list[RequestState]:
        async with kernel_of(scene.root) as kernel:
            return [ask.state for ask in kernel.asks()]

    assert anyio.run(back) == [RequestState.WAITING]
    scene.assert_settled()


@at_levels
@pytest.mark.parametrize("name", ["tree.do", "stay.do"])
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_sidecar_is_killed_and_its_family_goes_at_once(scene: Scene, name: str, number: int) -> None:
    process = call_directly(scene, name)
    try:
        until("running", lambda: scene.reached("running"))
        os.kill(family_of(scene.kernel(), 4)[0].pid, signal.SIGKILL)
        result = json.loads(process.communicate(timeout=60)[0])
    finally:
        scene.kill_kernel(process)
    assert result["status"] == "failed"
    assert scene.desk.survivors() == []
    scene.assert_settled()


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("scene", [Level.DEGRADED, Level.ENFORCED], indirect=True)
def test_an_observer_is_killed_and_its_call_ends_at_once(scene: Scene, number: int) -> None:
    process = call_directly(scene, "tree.do")
    try:
        until("running", lambda: scene.reached("running"))
        family = family_of(scene.kernel(), 4)
        (observer,) = observers_of(scene.kernel())
        os.kill(observer, signal.SIGKILL)
        result = json.loads(process.communicate(timeout=60)[0])
        assert (result["status"], result["error"]["code"]) == ("failed", "crashed")
        # The kernel has ended them, and goes on.
        assert not any(map(still_runs, family))
        assert scene.kernel()
    finally:
        scene.kill_kernel(process)
    scene.assert_settled()
