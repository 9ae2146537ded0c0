"""`flytui demo`: opens a console on a temporary root, where a separate process calls tools."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import at_terminal, print_json, print_line

if TYPE_CHECKING:
    from flycore.rpc.methods import Approver, Client
    from flytui.cli.demo_root import DemoRoot
    from flytui.cli.documents import DemoCall

WAIT_SECONDS = "60"
"""Seconds that a call waits for the console: it connects before the console has been drawn."""
TITLE = "demo"


@click.command()
@common
def demo(invocation: Invocation) -> int:
    """See an approval without risk, in a temporary folder.

    A separate process calls an echo tool three times: the first call is allowed, the second has medium
    and the third has high risk.
    """
    from flytui.cli.demo_root import prepare_demo

    if not at_terminal():
        raise click.UsageError("the demo opens a console, and a console needs a terminal")
    with tempfile.TemporaryDirectory(prefix="flytui-demo-") as folder:
        calls = _play(prepare_demo(Path(folder), os.environ))
    if invocation.as_json:
        from flytui.cli.documents import DemoDocument

        print_json(DemoDocument(calls=tuple(calls)))
    else:
        for call in calls:
            print_line(f"{call.tool}: {call.status} (exit {call.exit_code})")
    return 0


def _play(root: DemoRoot) -> list[DemoCall]:
    """Opens the console and makes the calls; both end when the person quits. Returns the finished calls."""
    calls: list[DemoCall] = []

    @asynccontextmanager
    async def opening(report: Callable[[str], None]) -> AsyncIterator[tuple[Client, Approver]]:
        import anyio

        from flytui.cli.console import open_kernel_beside

        async with open_kernel_beside(root.places, report) as at_kernel, anyio.create_task_group() as group:
            group.start_soon(make_calls, root, calls)
            yield at_kernel
            # A call may still wait for a decision in the console that has just closed.
            group.cancel_scope.cancel()

    async def show_console() -> None:
        from flycore.client.audit_reader import AuditReader
        from flytui.cli.console import find_console_windows, until_terminal_closes
        from flytui.console.run import run_console

        async with until_terminal_closes():
            await run_console(
                opening,
                TITLE,
                find_own_windows=find_console_windows,
                audit_reader=AuditReader.of(root.places),
            )

    run_async(show_console)
    return calls


async def make_calls(root: DemoRoot, calls: list[DemoCall]) -> None:
    """Calls each tool from a process of its own, one after the other, and appends each result to `calls`."""
    import anyio

    from flytui.cli.demo_root import TOOLS
    from flytui.cli.documents import DemoCall

    for tool in TOOLS:
        done = await anyio.run_process(
            [
                *(sys.executable, "-m", "flytui", "call", tool, f"message=hello from {tool}"),
                *("--root", str(root.places.app_root), "--json"),
                *("--wait-approver", WAIT_SECONDS, "--say", "the demo's call"),
            ],
            env=root.environ,
            check=False,
        )
        calls.append(DemoCall(tool=tool, exit_code=done.returncode, status=_status(done.stdout)))


def _status(output: bytes) -> str:
    """Returns the status in the result that `flytui call --json` printed."""
    import msgspec

    from flycore.model.call import ToolResult

    try:
        return msgspec.json.decode(output, type=ToolResult).status.value
    except (msgspec.DecodeError, msgspec.ValidationError):
        return "no result"
