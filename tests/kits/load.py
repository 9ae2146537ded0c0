"""Many callers at once, with fast, slow, broken and huge tools, and two tools of one exclusive group.

Every program leaves a mark when it begins; those of the group leave one more when they end. The tests and the
benchmark compare these marks and the lines of the audit log with the calls that were made.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Status
from kits.kernel import Root, a_caller, request, tool

AT_ONCE = 64
CALLERS = 20
MIB = 1024 * 1024
HUGE_CHARACTERS = 200_000
QUOTA = {"callsPerMinute": 100_000, "askedPerMinute": 100_000, "running": 1_000}

_HEAD = """#!/bin/sh
read -r request
n=${{request#*'"n":'}}; n=${{n# }}; n=${{n%%[!0-9]*}}
echo "$n" >> "{marks}"
"""
_GOOD = """printf '{"ok": true, "n": %s}\\n' "$n"\n"""
_BODIES = {
    "fast": _GOOD,
    "slow": "sleep 0.05\n" + _GOOD,
    "broken": "echo nonsense\nexit 3\n",
    "huge": 'printf \'{{"ok": true, "x": "%0{huge}d"}}\\n\' 0\n',
    "endless": "exec head -c 50000000 /dev/zero\n",
    "left": 'echo "enter $n" >> "{order}"\nsleep 0.03\necho "leave $n" >> "{order}"\n' + _GOOD,
    "right": 'echo "enter $n" >> "{order}"\necho "leave $n" >> "{order}"\n' + _GOOD,
}
MIX = ("fast", "fast", "slow", "left", "right", "broken", "fast", "huge", "endless", "fast")
"""The tools in the order in which they are called, again and again."""
ENDS = {"broken": Status.FAILED, "endless": Status.FAILED}
"""How a call of a tool ends that does not end well."""


def load_root(base: Path) -> Root:
    """A root with all tools, a policy that allows them, and a quota that is enough for one caller."""
    root = Root(base)
    config = base / "config" / "flytui"
    config.mkdir(parents=True)
    (config / "config.jsonc").write_text(json.dumps({"quota": QUOTA}))
    root.policy({"tool": "*", "decision": "allow", "because": "load"})
    head = _HEAD.format(marks=base / "marks")
    for name, body in _BODIES.items():
        text = body.replace("{order}", str(base / "order"))
        text = text.format(huge=HUGE_CHARACTERS) if name == "huge" else text
        more = {"exclusive": "one"} if name in ("left", "right") else {}
        root.sidecar(name, head + text, tool(f"{name}.do", **more))
    return root


@dataclass
class Load:
    """The result of a run of many calls."""

    results: dict[int, ToolResult] = field(default_factory=dict)
    """Without their outputs, so that what grows is the kernel's."""
    seconds: float = 0.0
    growth: int = 0
    """Bytes of memory that this process holds more than before."""

    def wrong(self) -> list[str]:
        """The calls that did not end as their tool does."""
        return [
            f"{number} {MIX[number % len(MIX)]}: {result.status} {result.error}"
            for number, result in self.results.items()
            if result.status is not ENDS.get(MIX[number % len(MIX)], Status.SUCCESS)
        ]


async def run_load(kernel: Kernel, numbers: range) -> Load:
    """Make a call for each number, 64 at once, by 20 callers in turn."""
    load, left = Load(), iter(numbers)
    callers = [a_caller(f"agent{index}", 5_000 + index) for index in range(CALLERS)]

    async def work() -> None:
        for number in left:
            name = f"{MIX[number % len(MIX)]}.do"
            wanted = request(kernel, name, {"n": number}, caller=callers[number % CALLERS])
            result = await kernel.call(wanted)
            load.results[number] = msgspec.structs.replace(result, output=None)

    before, begun = resident(), time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(work)
    load.seconds = time.perf_counter() - begun
    load.growth = resident() - before
    return load


def marks(root: Root) -> Counter[int]:
    """How often each call's program began."""
    return Counter(int(line) for line in (root.base / "marks").read_text().split())


def overlaps(root: Root) -> int:
    """How often a call entered the group while another one was in it."""
    inside, found = "", 0
    for line in (root.base / "order").read_text().splitlines():
        what, _, number = line.partition(" ")
        found += inside != ("" if what == "enter" else number)
        inside = number if what == "enter" else ""
    return found


def lines_of_calls(root: Root, *names: str) -> dict[str, Counter[str]]:
    """The number of lines of each call for each event."""
    counted: dict[str, Counter[str]] = {name: Counter() for name in names}
    for line in root.audit():
        if line["event"] in counted:
            counted[line["event"]][line["callId"]] += 1
    return counted


def resident() -> int:
    """The resident bytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def flood(kernel: Kernel, group: Any, count: int, name: str) -> list[ToolResult]:
    """Make so many calls of one caller, each with an input of its own, and return the results in order of
    their end."""
    results: list[ToolResult] = []

    async def one(number: int) -> None:
        results.append(await kernel.call(request(kernel, name, {"n": number})))

    for number in range(count):
        group.start_soon(one, number)
    return results


def refused_for(results: list[ToolResult], code: Code) -> int:
    """The number of calls that ended with that code."""
    return sum(result.error is not None and result.error.code == code for result in results)


def waiting_of(kernel: Kernel, program: str) -> list[Ask]:
    """The waiting requests of a program."""
    return [
        ask for ask in kernel.asks() if ask.request.caller.program == program and ask.state.value == "waiting"
    ]
