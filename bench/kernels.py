"""A kernel for a benchmark: a root of its own, with everything trusted and allowed.

`fsync` does nothing here, because it would measure the disk.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from unittest import mock

import anyio

from flycore.kernel.compose import open_kernel
from flycore.kernel.kernel import Kernel
from flycore.kernel.lock import RootLock
from flycore.model.call import Caller, CallRequest
from flycore.model.enums import Effective, KernelRole, Status
from flycore.pipeline.targets.window import ProtectedWindows
from flycore.registry.paths import RootPaths, find_paths

CALLER = Caller(door="socket", program="bench", executable="/usr/bin/bench", pid=1, started=1)
PATIENCE_S = 20.0
Call = Callable[[], Awaitable[None]]


@contextmanager
def no_sync() -> Iterator[None]:
    """Make `fsync` do nothing in the block."""
    with mock.patch("os.fsync", _nothing):
        yield


def _nothing(descriptor: int) -> None:
    """The replacement for `os.fsync`."""


def root(
    base: Path, programs: dict[str, Path], decision: str = "allow", **entry: object
) -> tuple[RootPaths, dict[str, str]]:
    """Create an app root with a sidecar and a tool for each name, and return it with the environment of its
    kernel. The user's rule decides so about all tools.

    Each sidecar's program is alone in its folder and starts in an empty one: its seal is complete, so that a
    rule may allow it, and it runs from a private copy.
    """
    project, config = base / "project", base / "config" / "flytui"
    (project / "tools").mkdir(parents=True)
    config.mkdir(parents=True)
    environ = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(base),
        "LANG": "C.UTF-8",
        **{f"XDG_{kind}_HOME": str(base / kind.lower()) for kind in ("CONFIG", "STATE", "DATA", "CACHE")},
    }
    sidecars = {name: {**_entry(project, name, program), **entry} for name, program in programs.items()}
    registry = {"schemaVersion": 2, "sidecars": sidecars}
    (project / "tools" / "external.tools.jsonc").write_text(json.dumps(registry))
    rule = {"tool": "bench.*", "decision": decision, "because": "it is measured"}
    (config / "policy.jsonc").write_text(json.dumps({"schemaVersion": 1, "rules": [rule]}))
    settings = {"quota": {"callsPerMinute": 100_000, "running": 1_000}}
    (config / "config.jsonc").write_text(json.dumps(settings))
    return find_paths(str(project), None, environ, project), environ


def script(path: Path, text: str) -> Path:
    """Write an executable program in Python, whose text names its interpreter as `{python}`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(python=sys.executable))
    path.chmod(0o755)
    return path


def _entry(project: Path, tool: str, program: Path) -> dict[str, object]:
    folder = project / "tools" / tool
    folder.mkdir()
    copy = folder / program.name
    copy.write_bytes(program.read_bytes())
    copy.chmod(0o755)
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    described = {"name": tool, "description": "Answers.", "risk": "low", "inputSchema": schema}
    return {
        "command": f"./tools/{tool}/{program.name}",
        "cwd": "empty",
        # The least that an entry can declare, so that what is measured is a confined call.
        "permissions": {},
        "tools": [{**described, "outputSchema": {"type": "object"}}],
    }


@asynccontextmanager
async def running(places: RootPaths, environ: dict[str, str]) -> AsyncIterator[Kernel]:
    """A kernel for one measurement, so that each measurement begins with a full quota."""
    with RootLock.acquire(places, KernelRole.CONSOLE) as holder:
        async with open_kernel(places, holder, environ) as kernel:
            approver = kernel.pairing.open_own("bench", os.getppid(), ProtectedWindows())
            waiting = kernel.pending_trust()
            await approver.trust(tuple((item.sidecar, item.digest) for item in waiting))
            with anyio.fail_after(PATIENCE_S):
                await _available(kernel)
            yield kernel


async def trust(places: RootPaths, environ: dict[str, str]) -> None:
    """Trust everything in the root, with a kernel that ends at once."""
    async with running(places, environ):
        pass


async def _available(kernel: Kernel) -> None:
    with kernel.bus.subscribe() as changes:
        while any(side.stability.effective is not Effective.AVAILABLE for side in kernel.catalog().sidecars):
            await anext(aiter(changes))


def calling(kernel: Kernel, tool: str) -> Call:
    """Make one call of the tool. Raises `RuntimeError` if it does not succeed."""

    async def call() -> None:
        # A call that is asked about ends at once, and fails, instead of waiting for a person.
        request = CallRequest(
            call_id=kernel.new_call_id(),
            tool=tool,
            input={"path": "README.md"},
            caller=CALLER,
            inline_wait_ms=0,
        )
        result = await kernel.call(request)
        if result.status is not Status.SUCCESS:
            raise RuntimeError(f"{result.error}")

    return call
