"""Starts a kernel on demand: a process of its own that serves the root until nobody uses it any more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import msgspec

from flycore.approval.callers import KERNEL_PROGRAM
from flycore.kernel.lock import is_reserved, living_holder, start_turn
from flycore.model.base import Value
from flycore.model.errors import KernelFailed
from flycore.registry.paths import RootPaths

START_SECONDS = 60.0
"""How long a kernel may take until it serves. Recovering after a kill may end processes first."""
MAX_REPORT_BYTES = 16_384
_PASSED = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
        *("XDG_DATA_DIRS", "XDG_SESSION_TYPE", "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY"),
        "DBUS_SESSION_BUS_ADDRESS",
    )
)
"""Variables that stand in the environment of the process. What entries declare, such as secrets, is handed
over by value, so that no program finds it in the environment of the kernel."""


class StartOrder(Value, frozen=True, kw_only=True):
    """What a kernel on demand is told on its standard input, in MessagePack: paths and variables may have
    bytes that are no text."""

    paths: tuple[bytes, ...]
    """The fields of RootPaths, in order."""
    variables: dict[bytes, bytes]
    """The environment of the command that starts it."""

    @classmethod
    def of(cls, places: RootPaths, environ: Mapping[bytes, bytes]) -> StartOrder:
        """Return the order to serve that root."""
        return cls(paths=tuple(map(os.fsencode, places)), variables=dict(environ))

    @property
    def places(self) -> RootPaths:
        """The paths of the root."""
        return RootPaths(*(Path(os.fsdecode(path)) for path in self.paths))

    @property
    def environ(self) -> dict[str, str]:
        """The variables as text."""
        return {os.fsdecode(name): os.fsdecode(value) for name, value in self.variables.items()}


class StartReport(Value, frozen=True, kw_only=True):
    """What a kernel on demand answers on its standard output, once."""

    ready: bool = False
    failed: str = ""
    """Why no kernel can run on the root; empty if another process holds it."""


def kernel_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the allowed variables of an environment."""
    return {name: value for name, value in environ.items() if name in _PASSED or name.startswith("LC_")}


async def start_kernel(places: RootPaths) -> bool:
    """Start a kernel of the root, and return whether it serves now.

    It is not started while another process holds the root, waits for it, or starts one. Raises KernelFailed
    with the reason if no kernel can run on the root, and StateUnwritable.
    """
    with start_turn(places) as turn:
        if not turn or is_reserved(places) or living_holder(places) is not None:
            return False
        report = await anyio.to_thread.run_sync(_start, StartOrder.of(places, os.environb))
    if report.failed:
        raise KernelFailed(report.failed)
    return report.ready


def _start(order: StartOrder) -> StartReport:
    """Start the program and return its report. This blocks."""
    process = subprocess.Popen(
        (sys.executable, "-I", "-m", KERNEL_PROGRAM),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=kernel_environment(os.environ),
        # An agent that ends the command ends its whole session with it.
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(msgspec.msgpack.encode(order), START_SECONDS)
    except subprocess.TimeoutExpired:
        # The kernel may hold the other end of the pipe for as long as it hangs, so its end is not waited for.
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.wait()
        return StartReport(failed=f"the kernel did not start within {START_SECONDS:.0f} seconds")
    try:
        return msgspec.json.decode(said[:MAX_REPORT_BYTES], type=StartReport)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return StartReport(
            failed="the kernel ended before it served; kernel.log in its state folder says why"
        )
