"""S16: consoles and kernels that are killed at any moment, and what their supervisor makes of it.

A console that dies decides nothing and loses no call; a kernel that dies leaves no process behind, and the
outcome of what had started is not known.
"""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.kernel.crash_recovery import find_leftover_processes
from flycore.model.session import session_of
from flytui.supervisor.terminal_modes import RESTORE
from kits.command_line import LONGEST, Desk
from kits.console_processes import ConsoleProcesses, gone, processes_of
from kits.kernel import Root, kernel_of, tool
from kits.restarts import FAILING, SECRET, WITHOUT_LIMIT, ConsoleTerminal, console_of

pytestmark = [pytest.mark.suite, pytest.mark.long, pytest.mark.timeout(1800)]
FULL = os.environ.get("FLYTUI_SUITES") == "full"
CONSOLE_DEATHS = 100 if FULL else 2
KERNEL_DEATHS = 100 if FULL else 2

SLOW = """#!/bin/sh
read -r request
touch {base}/running
while [ ! -e {base}/go ]; do sleep 0.05; done
printf '{{"ok": true}}\\n'
"""
FAMILY = """#!/bin/sh
read -r request
sleep 1000 &
setsid sleep 1000 &
touch {base}/running
wait
"""


class Scene:
    """A root with a tool that runs until it may end, one that leaves processes, and one that asks."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = root = Root(base)
        # At full size its call runs for minutes.
        root.sidecar("slow", SLOW.format(base=base), tool("slow.do"), timeoutMs=1_800_000)
        root.sidecar("tree", FAMILY.format(base=base), tool("tree.do"))
        root.sidecar("ask", SLOW.format(base=base), tool("ask.do"))
        root.policy(
            *({"tool": f"{name}.do", "decision": "allow", "because": "test"} for name in ("slow", "tree"))
        )
        self.desk = Desk(root.folder, base)
        anyio.run(self._trust)

    async def _trust(self) -> None:
        async with kernel_of(self.root):
            pass

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The lines of the log with that event."""
        return [line for line in self.root.audit() if line["event"] == event]

    def has_told(self, unknown: int) -> bool:
        """Whether the log says of so many calls that their outcome is not known."""
        return len(self.lines("TOOL_OUTCOME_UNKNOWN")) == unknown

    def no_leftovers(self) -> bool:
        """Whether no process of a call is there."""
        sessions = {session_of(line["callId"]) for line in self.lines("TOOL_CALLED")}
        return not find_leftover_processes(sessions)

    def running(self) -> bool:
        """Whether the program of a call runs."""
        return (self.base / "running").exists()

    def report(self, name: str) -> Path:
        """The path of a crash report."""
        return self.root.places.state_dir / name


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def both(shown: ConsoleTerminal, but: ConsoleProcesses | None = None) -> ConsoleProcesses:
    """The processes once kernel and console run, and neither is the one of `but` that died."""
    dead = () if but is None else (but.console, but.kernel)

    def there() -> bool:
        found = processes_of(shown.process.pid)
        return found.console not in (0, *dead) and found.kernel not in (0, *dead)

    shown.until_so("a kernel and a console", there)
    return processes_of(shown.process.pid)


def another(shown: ConsoleTerminal, which: Callable[[ConsoleProcesses], int], dead: int) -> None:
    """Wait until another process has taken the place of the dead one."""
    shown.until_so("another process", lambda: which(processes_of(shown.process.pid)) not in (0, dead))


def linger(shown: ConsoleTerminal, seconds: float) -> None:
    """Let the console work for that time: the moment of a death is what is tried here."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        shown.read(min(left, 0.05))


def test_no_call_is_lost_and_nothing_decided_by_deaths_of_the_console(scene: Scene) -> None:
    moments = random.Random(20_260_731)
    back: list[float] = []
    with console_of(scene.desk, WITHOUT_LIMIT) as shown:
        shown.until("policy ok")
        running = scene.desk.start("call", "slow.do", "{}", "--json")
        shown.until_so("it runs", scene.running)
        asking = scene.desk.start("call", "ask.do", "{}", "--json")
        shown.until_so("it waits", lambda: bool(scene.lines("APPROVAL_ASKED")))
        kernel = both(shown).kernel
        for _ in range(CONSOLE_DEATHS):
            dead = both(shown).console
            linger(shown, moments.uniform(0.0, 1.5))
            shown.raw = ""
            os.kill(dead, signal.SIGKILL)
            killed = time.monotonic()
            # What the dead console drew is read first, and may hold the notice of the console before it.
            shown.until_so("the terminal restored", lambda: RESTORE in shown.raw)
            shown.raw = shown.raw.partition(RESTORE)[2]
            shown.until("nothing was decided")
            back.append(time.monotonic() - killed)
            assert "\x1b[?1049h" in shown.raw
            assert processes_of(shown.process.pid).console not in (0, dead)
            assert processes_of(shown.process.pid).kernel == kernel
            assert (running.poll(), asking.poll()) == (None, None)
            assert scene.lines("APPROVAL_DECIDED") == []
        print(f"console back after {sorted(back)[len(back) // 2]:.2f} s, at most {max(back):.2f} s")
        shown.until("keys ready")
        shown.press("d")
        assert json.loads(asking.communicate(timeout=LONGEST)[0])["status"] == "denied"
        (scene.base / "go").touch()
        assert json.loads(running.communicate(timeout=LONGEST)[0])["status"] == "success"
    assert scene.desk.survivors() == []
    assert len(scene.lines("TOOL_STARTED")) == 1


def test_a_kernel_that_dies_leaves_no_process_and_its_calls_unknown(scene: Scene) -> None:
    moments = random.Random(20_260_732)
    with console_of(scene.desk, WITHOUT_LIMIT) as shown:
        shown.until("policy ok")
        for number in range(KERNEL_DEATHS):
            (scene.base / "running").unlink(missing_ok=True)
            calling = scene.desk.start("call", "tree.do", "{}", "--json")
            shown.until_so("it runs", scene.running)
            linger(shown, moments.uniform(0.0, 0.3))
            console, kernel = both(shown)[1:]
            shown.raw = ""
            os.kill(kernel, signal.SIGKILL)
            another(shown, lambda found: found.kernel, kernel)
            shown.until("kernel gone")
            told = json.loads(calling.communicate(timeout=LONGEST)[0])
            assert told["error"]["code"] == "outcome-unknown"
            shown.until_so("it is told", partial(scene.has_told, number + 1))
            shown.until_so("its processes are gone", scene.no_leftovers)
            shown.until_so("policy ok", lambda: "policy ok" in shown.shown.partition("kernel gone")[2])
            assert processes_of(shown.process.pid).console == console
    assert scene.desk.survivors() == []
    assert scene.lines("APPROVAL_DECIDED") == []


@pytest.mark.parametrize("name", ["console", "kernel"])
def test_the_third_death_within_a_minute_ends_it_with_the_reason(scene: Scene, name: str) -> None:
    with console_of(scene.desk) as shown:
        attributes = shown.attributes()
        found = both(shown)
        shown.until("policy ok")
        assert shown.attributes() != attributes
        for left in (2, 1, 0):
            dead: int = getattr(found, name)
            shown.raw = ""
            os.kill(dead, signal.SIGKILL)
            if left:
                another(shown, lambda found: getattr(found, name), dead)
                found = both(shown)
        assert shown.end() == 1
        assert shown.attributes() == attributes
        report = scene.report(f"{name}-crash.txt")
        assert f"the {name} died 3 times within a minute" in shown.shown
        assert str(report) in shown.shown.replace("\r\n", "")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert "SIGKILL" in report.read_text()
    shown_by_others = scene.desk.document("status")
    assert shown_by_others["running"] is False
    assert scene.desk.survivors() == []


def test_a_console_that_fails_says_where_and_nothing_of_a_call(scene: Scene) -> None:
    with console_of(scene.desk, FAILING) as shown:
        shown.until("policy ok")
        before = both(shown)
        shown.press("?")
        another(shown, lambda found: found.console, before.console)
        shown.until("nothing was decided")
        assert both(shown).kernel == before.kernel
        assert SECRET not in shown.raw
    report = scene.report("console-crash.txt")
    text = report.read_text()
    assert ("builtins.ValueError" in text, "action_help" in text, SECRET in text) == (True, True, False)
    assert "flytui 0." in text
    assert stat.S_IMODE(report.stat().st_mode) == 0o600


def test_without_its_supervisor_neither_of_the_two_stays(scene: Scene) -> None:
    with console_of(scene.desk) as shown:
        shown.until("policy ok")
        found = both(shown)
        os.kill(found.supervisor, signal.SIGKILL)
        shown.until_so("both have left", lambda: gone(found.console) and gone(found.kernel))
    assert scene.desk.document("status")["running"] is False
    assert scene.desk.survivors() == []


def test_an_ignored_hang_up_stays_ignored_in_all_three(scene: Scene) -> None:
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$0" "$@"', *scene.desk.argv()]
    with console_of(scene.desk, argv=ignoring) as shown:
        shown.until("policy ok")
        found = processes_of(shown.process.pid)
        for pid in found:
            ignored = Path(f"/proc/{pid}/status").read_text().partition("SigIgn:\t")[2].split()[0]
            assert int(ignored, 16) & 1 << (signal.SIGHUP - 1)
            os.kill(pid, signal.SIGHUP)
        shown.press("3")
        shown.until("No calls yet.")
        assert processes_of(shown.process.pid) == found
        shown.process.send_signal(signal.SIGTERM)
        assert shown.end() == 143


def test_no_program_that_the_kernel_starts_has_its_descriptors(scene: Scene, tmp_path: Path) -> None:
    script = "#!/bin/sh\nread -r request\nls -l /proc/$$/fd > {base}/fds\nprintf '{{\"ok\": true}}\\n'\n"
    scene.root.sidecar("look", script.format(base=tmp_path), tool("look.do"))
    scene.root.policy({"tool": "look.do", "decision": "allow", "because": "test"})
    anyio.run(scene._trust)
    with console_of(scene.desk) as shown:
        shown.until("policy ok")
        done = scene.desk.document("call", "look.do", "{}")
        assert done["status"] == "success"
    assert "socket:" not in (tmp_path / "fds").read_text()
