"""`flytui call`: runs one tool through the kernel. A person is asked in the console, never by this
command."""

from __future__ import annotations

import os
import sys

import click

from flycore.client.client import connect
from flycore.model.call import ToolResult
from flycore.model.errors import ConnectionLost
from flycore.model.json import JsonObject
from flycore.rpc.methods import Client
from flytui.cli.call_input import CallInputError, Pairs, read_input_words, refuse_undecodable, typed_input
from flytui.cli.call_progress import progress_display, show_progress
from flytui.cli.call_text import cancelled_result, lost_result, print_result
from flytui.cli.interrupts import SignalInterrupt, run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_json
from flytui.cli.root_notice import check_root
from flytui.cli.shell_completion import tool_names

TO_THE_END_MS = 7 * 24 * 3_600_000
"""One week: longer than any request waits for a person, so that the call waits for the answer."""


@click.command()
@click.argument("tool", shell_complete=tool_names)
@click.argument("words", metavar="[JSON | KEY=VALUE… | -]", nargs=-1)
@click.option("--input", "option", metavar="JSON", help="The input as a JSON object; - reads standard input.")
@click.option("--timeout-ms", type=click.IntRange(min=1), help="Shorten the tool's own time limit.")
@click.option(
    "--say", "said", default="", help="What the call is for; the person sees this text marked as unverified."
)
@click.option(
    "--wait-approver",
    type=click.FloatRange(min=0, max=86_400),
    default=0.0,
    metavar="SECONDS",
    help="If a person has to be asked and no console is open, wait this long for one.",
)
@click.option(
    "--no-wait",
    is_flag=True,
    help="If a person has to be asked, end at once with a ticket (exit code 8). The same command, made "
    "again, takes the place of this call, or runs if it was approved meanwhile.",
)
@common
def call(
    invocation: Invocation,
    tool: str,
    words: tuple[str, ...],
    option: str | None,
    timeout_ms: int | None,
    said: str,
    wait_approver: float,
    no_wait: bool,
) -> int:
    """Call TOOL and print its output.

    The exit code says how the call ended: 0 success, 1 failed, 2 wrong input, 3 unavailable, 4 denied,
    6 out of time, 7 outcome not known, 8 not decided yet, 10 too many requests wait already.
    """
    result, interrupted = call_tool(
        invocation,
        tool,
        words,
        option,
        timeout_ms=timeout_ms,
        said=said,
        wait_approver=wait_approver,
        no_wait=no_wait,
    )
    if invocation.as_json:
        print_json(result)
    else:
        print_result(result)
    return interrupted or result.exit_status


def call_tool(
    invocation: Invocation,
    tool: str,
    words: tuple[str, ...],
    option: str | None,
    *,
    timeout_ms: int | None = None,
    said: str = "",
    wait_approver: float = 0.0,
    no_wait: bool = False,
    observe: bool = False,
) -> tuple[ToolResult, int]:
    """Calls the tool with the input of the command line. Returns its result, and the exit code of a signal
    that interrupted it, else 0."""
    try:
        refuse_undecodable(tool, said)
        entered_input = read_input_words(words, option, _read_stdin)
    except CallInputError as problem:
        raise click.UsageError(str(problem)) from None
    places = invocation.places()
    ended: list[ToolResult] = []
    display = progress_display(tool, plain=invocation.plain, for_console=wait_approver > 0)

    async def perform() -> None:
        await check_root(invocation, places)
        async with (
            connect(places, wait_approver=wait_approver) as client,
            show_progress(display) as on_progress,
        ):
            result = await client.call(
                tool,
                await _finished_input(client, tool, entered_input),
                timeout_ms=timeout_ms,
                purpose=said,
                inline_wait_ms=0 if no_wait else TO_THE_END_MS,
                observe=observe,
                on_progress=on_progress,
            )
            ended.append(result)

    interrupted = 0
    try:
        run_async(perform)
    except SignalInterrupt as stop:
        interrupted = stop.exit_code
    except ConnectionLost:
        ended = ended or [lost_result(tool)]
    return (ended[0] if ended else cancelled_result(tool)), interrupted


async def _finished_input(client: Client, tool: str, entered_input: JsonObject | Pairs) -> JsonObject:
    """Returns the input as an object; `key=value` words get their types from the tool's schema."""
    if isinstance(entered_input, dict):
        return entered_input
    if not entered_input:
        return {}
    view = (await client.catalog()).capability(tool)
    return typed_input(entered_input, view.capability.input_schema if view else {})


def _read_stdin(limit: int) -> bytes:
    """Reads standard input up to its end, at most `limit` bytes."""
    parts: list[bytes] = []
    while limit > 0 and (part := os.read(sys.stdin.fileno(), min(limit, 65_536))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)
