"""`flytui activity`: calls under way and calls that ended, those of earlier kernels too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import query_kernel
from flytui.cli.output import EXIT_UNKNOWN, print_error, print_json, print_line, table

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.model.call import Activity
    from flycore.registry.paths import RootPaths

DEFAULT_CALLS = 20
MOST_CALLS = 500
LEAST_ID = 6
"""Characters of an id that may stand for the whole of it."""
HEADINGS = ("ID", "STATE", "TOOL", "CALLER", "STARTED", "TOOK", "HOW")
COUNT = click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(1, MOST_CALLS),
    default=DEFAULT_CALLS,
    show_default=True,
    help="How many of the calls that ended.",
)


@click.group(invoke_without_command=True)
@COUNT
@click.option("--follow", is_flag=True, help="Go on printing each change, until the kernel leaves.")
@common
def activity(invocation: Invocation, count: int, follow: bool) -> int:
    """Calls under way, then those that ended, newest first."""
    if click.get_current_context().invoked_subcommand is not None:
        if follow:
            raise click.UsageError("--follow takes no further command")
        return 0
    if not follow:
        return _list(invocation, count)
    if invocation.as_json:
        raise click.UsageError("--json prints one document and --follow has no end: choose one")
    from flytui.cli.follow import follow_activity

    return follow_activity(invocation.places(), count)


@activity.command("list")
@COUNT
@common
def list_command(invocation: Invocation, count: int) -> int:
    """List them."""
    return _list(invocation, count)


@activity.command("show")
@click.argument("wanted", metavar="ID")
@common
def show(invocation: Invocation, wanted: str) -> int:
    """One call: its input, its output, how it ended. The beginning of an ID will do."""
    running, calls = _read_calls(invocation.places())
    found = _matching_calls(calls, wanted)
    if invocation.as_json:
        _emit(running, found)
    elif len(found) == 1:
        from flytui.cli.call_text import call_page

        print_line("\n".join(call_page(found[0], time.time())))
    else:
        _print_no_single_match(wanted, len(found))
    return 0 if len(found) == 1 else EXIT_UNKNOWN


@activity.command("cancel")
@click.argument("wanted", metavar="ID")
@common
def cancel(invocation: Invocation, wanted: str) -> int:
    """End a call that is under way; its processes end with it. Exit 3 where none is."""
    places = invocation.places()
    running, calls = _read_calls(places)
    found = _matching_calls(calls, wanted)
    if len(found) != 1:
        _print_no_single_match(wanted, len(found))
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

    from flytui.cli.call_text import state_text

    if call.result is None and query_kernel(places, question):
        print_error(f"cancelled: {call.tool}, {call.call_id}")
        return True
    ended = f": {state_text(call)}" if call.result is not None else ""
    print_error(f"nothing to cancel: {call.tool}, {call.call_id} is not under way any more{ended}")
    return False


def _list(invocation: Invocation, count: int) -> int:
    """Print the calls; always exit code 0."""
    running, calls = _read_calls(invocation.places())
    under_way = [call for call in calls if call.result is None]
    shown = (*under_way, *[call for call in calls if call.result is not None][:count])
    if invocation.as_json:
        _emit(running, shown)
    elif not shown:
        print_line("no call yet: flytui call makes one, and so does an agent")
    else:
        from flytui.cli.call_text import call_row

        now = time.time()
        table(invocation, HEADINGS, [call_row(call, now) for call in shown])
    return 0


def _emit(running: bool, calls: tuple[Activity, ...]) -> None:
    from flytui.cli.documents import ActivityDocument

    print_json(ActivityDocument(running=running, calls=calls))


def _read_calls(places: RootPaths) -> tuple[bool, tuple[Activity, ...]]:
    """Whether a kernel runs, and its calls; without one, those that the log knows."""

    async def question(client: Client) -> tuple[Activity, ...]:
        return await client.activity()

    from flycore.offline.audit_log import logged_calls

    calls = query_kernel(places, question)
    return (True, calls) if calls is not None else (False, logged_calls(places))


def _matching_calls(calls: tuple[Activity, ...], wanted: str) -> tuple[Activity, ...]:
    """The call of that id, else those whose id begins or ends like it."""
    exact = tuple(call for call in calls if call.call_id == wanted)
    if exact or len(wanted) < LEAST_ID:
        return exact
    return tuple(call for call in calls if call.call_id.startswith(wanted) or call.call_id.endswith(wanted))


def _print_no_single_match(wanted: str, found: int) -> None:
    if found:
        print_error(f"{wanted} stands for {found} calls: write more of the ID")
    else:
        print_error(f"no call is named {wanted}: flytui activity lists the latest ones")
