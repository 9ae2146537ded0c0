"""`flytui demo`: opens a console on a temporary root, where a separate process calls tools."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import anyio
import click
import msgspec

from flycore.model.call import ToolResult
from flytui.cli.demo_root import TOOLS, DemoRoot, prepare_demo
from flytui.cli.documents import DemoCall, DemoDocument
from flytui.cli.interrupts import SignalInterrupt, run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_json, print_line
from flytui.supervisor.console_arguments import at_terminal
from flytui.supervisor.programs import ConsolePlace, open_at

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
    if not at_terminal():
        raise click.UsageError("the demo opens a console, and a console needs a terminal")
    with tempfile.TemporaryDirectory(prefix="flytui-demo-") as folder:
        code, calls = _play(prepare_demo(Path(folder), os.environ))
    if code:
        return code
    if invocation.as_json:
        print_json(DemoDocument(calls=tuple(calls)))
    else:
        for call in calls:
            print_line(f"{call.tool}: {call.status} (exit {call.exit_code})")
    return 0


def _play(root: DemoRoot) -> tuple[int, list[DemoCall]]:
    """Opens the console, beside which a process makes the calls; both end when the person quits. Returns the
    console's exit code and the finished calls."""
    record = root.places.app_root.parent / "calls.jsonl"

    def companion() -> int:
        os.environ.clear()
        os.environ.update(root.environ)
        return run_calls(root, record)

    place = ConsolePlace(root=str(root.places.app_root), environ=root.environ, title=TITLE)
    code = open_at([place], companion)
    lines = record.read_bytes().splitlines() if record.exists() else []
    return code, [msgspec.json.decode(line, type=DemoCall) for line in lines]


def run_calls(root: DemoRoot, record: Path) -> int:
    """Makes the calls until they have ended, or a signal comes, and writes one line for each to `record`."""

    async def run() -> None:
        await make_calls(root, record)

    try:
        run_async(run)
    except SignalInterrupt as interrupted:
        return interrupted.exit_code
    return 0


async def make_calls(root: DemoRoot, record: Path) -> None:
    """Calls each tool from a process of its own, one after the other, and adds a line for each to a file."""
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
        call = DemoCall(tool=tool, exit_code=done.returncode, status=_status(done.stdout))
        with record.open("ab") as lines:
            lines.write(msgspec.json.encode(call) + b"\n")


def _status(output: bytes) -> str:
    """Returns the status in the result that `flytui call --json` printed."""
    try:
        return msgspec.json.decode(output, type=ToolResult).status.value
    except (msgspec.DecodeError, msgspec.ValidationError):
        return "no result"
