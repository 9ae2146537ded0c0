"""A real kernel on a root of its own, with sidecars that are small programs of the test."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from flycore.approval.callers import identify_peer
from flycore.kernel.approver import KernelApprover
from flycore.kernel.compose import open_kernel
from flycore.kernel.kernel import Kernel
from flycore.kernel.lock import RootLock
from flycore.model.approval import Answer, Ask
from flycore.model.call import Caller, CallRequest, ToolResult
from flycore.model.enums import Choice, KernelRole, RequestState
from flycore.pipeline.targets.window import ProtectedWindows
from flycore.registry.paths import RootPaths, find_paths
from flysafe.procfs import environment_value, process_table, read_process
from kits.waits import pauses

PATIENCE = 30.0
"""Longest wait for what takes a fraction of a second."""

ECHO = """#!/bin/sh
read -r request
printf '{"ok": true, "said": "hello"}\\n'
"""
STARTS_DELEGATE = r"""#!/bin/sh
read -r request
set -- $(printf '%s' "$request" | sed 's/.*"argv": *\[\([^]]*\)\].*/\1/; s/[",]/ /g')
printf '%s\n' "$request" | exec "$@"
"""
"""A sidecar that lets its one delegate answer."""


def folders(base: Path) -> dict[str, str]:
    """An environment whose folders are below `base`."""
    runtime = base / "run"
    runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(base),
        "LANG": "C.UTF-8",
        "XDG_CONFIG_HOME": str(base / "config"),
        "XDG_STATE_HOME": str(base / "state"),
        "XDG_DATA_HOME": str(base / "data"),
        "XDG_CACHE_HOME": str(base / "cache"),
        "XDG_RUNTIME_DIR": str(runtime),
    }


def tool(name: str, risk: str = "medium", **more: Any) -> dict[str, Any]:
    """A registry's description of a tool that accepts any input."""
    return {
        "name": name,
        "description": f"{name}, for a test",
        "inputSchema": {"type": "object"},
        "risk": risk,
        **more,
    }


def in_project(script: str, folder: Path) -> str:
    """The script with a line, after its first, that changes to the folder; as it is where its language is not
    known."""
    first, newline, rest = script.partition("\n")
    words = [Path(word).name for word in first[2:].split()] if first.startswith("#!") else [""]
    name = words[1] if words[0] == "env" else words[0]
    if name in ("sh", "bash"):
        change = f"cd {shlex.quote(str(folder))}"
    elif name.startswith("python"):
        change = f"import os; os.chdir({str(folder)!r})"
    elif name == "node":
        change = f"process.chdir({json.dumps(str(folder))})"
    else:
        return script
    head, future, tail = rest.partition("from __future__ import annotations\n")
    if future:
        return f"{first}{newline}{head}{future}{change}\n{tail}"
    return f"{first}{newline}{change}\n{rest}"


class Root:
    """An app root. `sidecar` adds a program and its entry."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.folder = base / "project"
        (self.folder / "tools").mkdir(parents=True)
        self.environ = folders(base)
        self.sidecars: dict[str, Any] = {}
        self.write()

    @property
    def places(self) -> RootPaths:
        """The paths of this root."""
        return find_paths(str(self.folder), None, self.environ, self.folder)

    def sidecar(self, name: str, script: str, *tools: Any, **entry: Any) -> Path:
        """Write the program `tools/bin-NAME/run`, alone in its folder, and its entry.

        Unless `cwd` is given, it starts in an empty folder, so that its seal is complete, and changes to the
        project by itself.
        """
        script = script if "cwd" in entry else in_project(script, self.folder)
        folder = self.folder / "tools" / f"bin-{name}"
        folder.mkdir(exist_ok=True)
        program = folder / "run"
        program.write_text(script)
        program.chmod(0o755)
        # A program that the test writes anew before it opens a kernel counts as accepted by a person.
        self.places.seals_file.unlink(missing_ok=True)
        self.sidecars[name] = {
            "command": f"./tools/bin-{name}/run",
            "tools": list(tools) or [tool(f"{name}.do")],
            "cwd": "empty",
            "permissions": {"fs": {"write": [str(self.base)]}},
            **entry,
        }
        self.write()
        return program

    def write(self) -> None:
        """Replace the registry in one step, as an editor does."""
        target = self.folder / "tools" / "external.tools.jsonc"
        fresh = target.with_suffix(".new")
        fresh.write_text(json.dumps({"schemaVersion": 2, "sidecars": self.sidecars}, indent=1))
        os.replace(fresh, target)

    def settings(self, **values: Any) -> None:
        """Write the user's settings."""
        file = self.places.config_dir / "config.jsonc"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))

    def policy(self, *rules: dict[str, Any], project: bool = False) -> None:
        """Write the user's policy, or the project's."""
        target = self.folder / "tools" if project else self.base / "config" / "flytui"
        target.mkdir(parents=True, exist_ok=True)
        (target / "policy.jsonc").write_text(json.dumps({"schemaVersion": 1, "rules": list(rules)}))

    def audit(self) -> list[dict[str, Any]]:
        """Every line of the log."""
        files = sorted((self.places.audit_dir).glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


_consoles: WeakKeyDictionary[Kernel, KernelApprover] = WeakKeyDictionary()
_CONSOLE = "the console of the tests"


def open_console(kernel: Kernel) -> KernelApprover:
    """Have a console beside the kernel, and return its approver. The kernel opens it as it does for the
    session of a connection that a supervisor handed over."""
    if kernel not in _consoles:
        # Not the test's own process: whatever that calls over a socket is called by an agent.
        _consoles[kernel] = kernel.pairing.open_own(_CONSOLE, os.getppid(), ProtectedWindows())
    return _consoles[kernel]


def close_console(kernel: Kernel) -> None:
    """Close that console, as when its connection ends. Requests go on waiting."""
    approver, pid = _consoles.pop(kernel, None), os.getppid()
    kernel.pairing.disconnected(_CONSOLE, approver, identify_peer(pid, "console"), pid)


def approver_of(kernel: Kernel) -> KernelApprover:
    """The approver of the console beside that kernel, which is open from then on."""
    return open_console(kernel)


@asynccontextmanager
async def kernel_of(root: Root, *, role: str = "console", trusted: bool = True) -> AsyncIterator[Kernel]:
    """A kernel with a console attached and everything in the registry trusted; with the role `serve` or
    `on-demand` without a console."""
    kind = KernelRole.CONSOLE if role == "console" else KernelRole.HEADLESS
    with RootLock.acquire(root.places, kind, on_demand=role == "on-demand") as holder:
        async with open_kernel(root.places, holder, root.environ) as kernel:
            if role == "console":
                open_console(kernel)
            if trusted:
                waiting = kernel.pending_trust()
                await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in waiting))
                if role != "console":
                    close_console(kernel)
                await until(lambda: all(view.trusted for view in kernel.catalog().sidecars))
            yield kernel


def processes_of(root: Root) -> list[int]:
    """The processes of the root's sidecars. In a namespace of its own a program has other ids, by which
    nobody outside finds it."""
    living = [one.pid for one in process_table().values() if not one.ended]
    return [pid for pid in living if environment_value(pid, "HOME") == str(root.base)]


async def until(found: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Wait until `found` returns a true value, and return it."""
    with anyio.fail_after(patience):
        for pause in pauses(0.01, 0.05):
            if value := found():
                return value
            await anyio.sleep(pause)
    raise AssertionError("pauses have no end")


def a_caller(name: str = "agent", pid: int | None = None) -> Caller:
    """A caller that is a program, which runs unless a pid is given: it is this process."""
    process = read_process(os.getpid()) if pid is None else None
    own, started = (pid or 0, 1) if process is None else (process.pid, process.started)
    return Caller(door="socket", program=name, executable=f"/usr/bin/{name}", pid=own, started=started)


def request(kernel: Kernel, name: str, input: dict[str, Any] | None = None, **more: Any) -> CallRequest:
    """A call as a server connection makes it."""
    caller = more.pop("caller", a_caller())
    return CallRequest(call_id=kernel.new_call_id(), tool=name, input=input or {}, caller=caller, **more)


async def waiting_ask(kernel: Kernel, count: int = 1) -> Ask:
    """The newest of `count` waiting requests."""

    def found() -> Ask | None:
        waiting = [ask for ask in kernel.asks() if ask.state is RequestState.WAITING]
        return waiting[-1] if len(waiting) >= count else None

    ask: Ask = await until(found)
    return ask


async def approve(kernel: Kernel, ask: Ask) -> None:
    """Approve exactly this request, as a person does."""
    outcome = await approver_of(kernel).decide(
        ask.request.id, ask.request.subject_digest, Answer(choice=Choice.APPROVE_ONCE)
    )
    assert outcome.accepted, outcome.why_not


async def approved_call(
    kernel: Kernel, name: str, input: dict[str, Any] | None = None, **more: Any
) -> ToolResult:
    """Make a call, approve it, and return the result."""
    return await answered_call(kernel, lambda ask: approve(kernel, ask), name, input, **more)


async def permitted_call(
    kernel: Kernel, name: str, input: dict[str, Any] | None = None, **more: Any
) -> ToolResult:
    """Make a call, approve it if a person is asked, and return the result."""
    results: list[ToolResult] = []
    asked = request(kernel, name, input, **more)

    async def run() -> None:
        results.append(await kernel.call(asked))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await approve_if_asked(kernel, asked, lambda: results)
    return results[0]


async def approve_if_asked(kernel: Kernel, asked: CallRequest, went_on: Callable[[], object]) -> None:
    """Approve the request of that call, unless `went_on` says that the call needed none."""

    def waiting() -> Ask | None:
        found = (ask for ask in kernel.asks() if ask.state is RequestState.WAITING)
        return next((ask for ask in found if ask.request.call_id == asked.call_id), None)

    await until(lambda: went_on() or waiting())
    ask = waiting()
    if ask is not None:
        # Nobody approves while a tool may still press keys.
        await until(lambda: not kernel.status().hands_on)
        await approve(kernel, ask)


async def answered_call(
    kernel: Kernel,
    answer: Callable[[Ask], Awaitable[None]],
    name: str,
    input: dict[str, Any] | None = None,
    **more: Any,
) -> ToolResult:
    """Make a call, let `answer` decide its request, and return the result."""
    results: list[ToolResult] = []

    async def run() -> None:
        results.append(await kernel.call(request(kernel, name, input, **more)))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await answer(await waiting_ask(kernel))
    return results[0]
