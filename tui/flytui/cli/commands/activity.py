"""`flytui activity`: lists running and ended calls, also those of earlier kernels; shows or cancels one."""

from __future__ import annotations

import time

import click

from flycore.client.audit_log import logged_calls
from flycore.model.call import Activity
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.call_text import call_page, call_row, state_text
from flytui.cli.command_group import SummaryGroup
from flytui.cli.documents import ActivityDocument
from flytui.cli.follow import follow_activity
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_running_kernel
from flytui.cli.output import EXIT_UNKNOWN, print_error, print_json, print_line, print_table

DEFAULT_CALLS = 20
MOST_CALLS = 500
LEAST_ID = 6
"""The fewest characters of an id that may be given in place of the whole id: fewer are likely to fit
several."""
HEADINGS = ("ID", "STATE", "TOOL", "CALLER", "STARTED", "TOOK", "HOW")
COUNT = click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(1, MOST_CALLS),
    default=DEFAULT_CALLS,
    show_default=True,
    help="How many ended calls to list.",
)


@click.group(cls=SummaryGroup, invoke_without_command=True)
@COUNT
@click.option("--follow", is_flag=True, help="Print each change until the kernel ends.")
@common
def activity(invocation: Invocation, count: int, follow: bool) -> int:
    """List running calls, then ended ones, newest first."""
    if click.get_current_context().invoked_subcommand is not None:
        if follow:
            raise click.UsageError("--follow cannot be combined with another command")
        return 0
    if not follow:
        return _list(invocation, count)
    if invocation.as_json:
        raise click.UsageError("--json prints one document, and --follow never ends: choose one of them")
    return follow_activity(invocation.places(), count)


@activity.command("list")
@COUNT
@common
def list_command(invocation: Invocation, count: int) -> int:
    """List running calls, then ended ones, newest first."""
    return _list(invocation, count)


@activity.command("show")
@click.argument("requested_id", metavar="ID")
@common
def show(invocation: Invocation, requested_id: str) -> int:
    """Show one call: its input, its output and how it ended.

    The first or last six characters of an ID are enough.
    """
    running, calls = _read_calls(invocation.places())
    found = _matching_calls(calls, requested_id)
    if invocation.as_json:
        _emit(running, found)
    elif len(found) == 1:
        print_line("\n".join(call_page(found[0], time.time())))
    else:
        _print_no_single_match(requested_id, len(found))
    return 0 if len(found) == 1 else EXIT_UNKNOWN


@activity.command("cancel")
@click.argument("requested_id", metavar="ID")
@common
def cancel(invocation: Invocation, requested_id: str) -> int:
    """Cancel a running call; its processes end with it.

    Exit 3 if no running call has that ID.
    """
    places = invocation.places()
    running, calls = _read_calls(places)
    found = _matching_calls(calls, requested_id)
    if len(found) != 1:
        _print_no_single_match(requested_id, len(found))
        done = False
    else:
        done = _cancel(places, found[0])
    if invocation.as_json:
        running, calls = _read_calls(places)
        _emit(running, tuple(call for call in calls if call.call_id in {each.call_id for each in found}))
    return 0 if done else EXIT_UNKNOWN


def _cancel(places: RootPaths, call: Activity) -> bool:
    async def question(client: Client) -> bool:
        return await client.cancel(call.call_id)

    if call.result is None and ask_running_kernel(places, question):
        print_error(f"cancelled: {call.tool}, {call.call_id}")
        return True
    ended = f": {state_text(call)}" if call.result is not None else ""
    print_error(f"nothing to cancel: {call.tool}, {call.call_id} is no longer running{ended}")
    return False


def _list(invocation: Invocation, count: int) -> int:
    """Prints the running calls and at most `count` ended ones; the exit code is always 0."""
    running, calls = _read_calls(invocation.places())
    running_calls = [call for call in calls if call.result is None]
    shown = (*running_calls, *[call for call in calls if call.result is not None][:count])
    if invocation.as_json:
        _emit(running, shown)
    elif not shown:
        print_line("no call yet: flytui call makes one, and so does an agent")
    else:
        now = time.time()
        print_table(invocation, HEADINGS, [call_row(call, now) for call in shown])
    return 0


def _emit(running: bool, calls: tuple[Activity, ...]) -> None:
    print_json(ActivityDocument(running=running, calls=calls))


def _read_calls(places: RootPaths) -> tuple[bool, tuple[Activity, ...]]:
    """Returns whether a kernel runs, and its calls; without a kernel, the calls that the log has."""

    async def question(client: Client) -> tuple[Activity, ...]:
        return await client.activity()

    calls = ask_running_kernel(places, question)
    return (True, calls) if calls is not None else (False, logged_calls(places))


def _matching_calls(calls: tuple[Activity, ...], requested_id: str) -> tuple[Activity, ...]:
    """Returns the call of that id, else the calls whose id begins or ends with it."""
    exact = tuple(call for call in calls if call.call_id == requested_id)
    if exact or len(requested_id) < LEAST_ID:
        return exact
    return tuple(
        call for call in calls if call.call_id.startswith(requested_id) or call.call_id.endswith(requested_id)
    )


def _print_no_single_match(requested_id: str, found: int) -> None:
    if found:
        print_error(f"{requested_id} fits {found} calls: write more of the ID")
    else:
        print_error(f"no call is named {requested_id}: flytui activity lists the latest ones")
