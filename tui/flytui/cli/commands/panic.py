"""`flytui panic`: stops everything on a root, with or without a kernel. Only a person can release it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import ask_yes_no, can_ask, count_of, print_error, print_json, print_line

if TYPE_CHECKING:
    from flycore.model.errors import RootBusy
    from flycore.registry.paths import RootPaths
    from flycore.rpc.methods import Client
    from flytui.cli.documents import PanicDocument

EXIT_NOT_RELEASED = 4
EXIT_NOT_SURE = 7
SETTLE_SECONDS = 10.0
"""Seconds in which a kernel that holds the root may not answer yet, because it starts or ends."""
LOOK_AGAIN_SECONDS = 0.1
IN_THE_CONSOLE = "release it in the console: ctrl+o"
IN_A_CONSOLE = "release it in a console attached to flytui serve: flytui, then ctrl+o"
AT_A_TERMINAL = "release it in a console (flytui, then ctrl+o), or on a terminal with flytui panic --release"


@click.command()
@click.option(
    "--release", is_flag=True, help="Accept calls again; asks on the terminal, and needs that no kernel runs."
)
@common
def panic(invocation: Invocation, release: bool) -> int:
    """Stop everything until a person releases it.

    Running calls and leases end, waiting requests are denied, and no new call is accepted.
    """
    places = invocation.places()
    return _release(invocation, places) if release else _print_stop(invocation, places)


def _print_stop(invocation: Invocation, places: RootPaths) -> int:
    document, code = _stop_root(places)
    if invocation.as_json:
        print_json(document)
        return code
    if not document.stopped:
        print_error(document.message)
        return code
    if document.already:
        print_line("everything was stopped already")
    elif document.ended_pid is not None:
        print_line(f"everything is stopped: the kernel, pid {document.ended_pid}, was ended")
    else:
        calls, requests = count_of(len(document.calls), "call"), count_of(document.requests, "request")
        ended = f"{calls} ended, {requests} refused, {count_of(document.leases, 'lease')} ended"
        print_line(
            f"everything is stopped: {ended}" if document.kernel else "everything is stopped: no kernel ran"
        )
    for call in document.calls:
        print_line(f"  ended  {call.tool}  {call.call_id}  by {call.caller}")
    print_error(document.message)
    return code


def _stop_root(places: RootPaths) -> tuple[PanicDocument, int]:
    """Stops through the kernel that runs; without one, in the file that the next kernel reads. Returns the
    exit code."""
    from flycore.model.errors import RootBusy
    from flytui.cli.kernel_query import query_kernel

    deadline = time.monotonic() + SETTLE_SECONDS
    # A kernel holds the root before its socket answers and after the socket closed: try both ways in turn.
    while True:
        document = query_kernel(places, _stop_running_kernel)
        if document is not None:
            return document, 0
        try:
            return _stop_offline(places), 0
        except RootBusy as busy:
            if time.monotonic() >= deadline:
                return _end_unanswering(places, busy)
        time.sleep(LOOK_AGAIN_SECONDS)


async def _stop_running_kernel(client: Client) -> PanicDocument:
    """Stops everything through the running kernel, and returns what there was to stop."""
    from flycore.model.enums import RequestState
    from flytui.cli.documents import EndedCall, PanicDocument

    calls = [call for call in await client.activity() if call.result is None]
    requests = sum(ask.state is RequestState.WAITING for ask in await client.asks())
    leases, status = len(await client.leases()), await client.status()
    first = await client.panic()
    return PanicDocument(
        app_root=status.app_root,
        kernel=True,
        already=not first,
        calls=tuple(EndedCall(call_id=it.call_id, tool=it.tool, caller=str(it.caller)) for it in calls),
        requests=requests,
        leases=leases,
        message=_release_place(status.role),
    )


def _release_place(role: str) -> str:
    """Returns where a person can release a stop, by the role of the kernel that runs."""
    return {"console": IN_THE_CONSOLE, "serve": IN_A_CONSOLE}.get(role, AT_A_TERMINAL)


def _stop_offline(places: RootPaths) -> PanicDocument:
    """Stops everything in the file. Raises RootBusy while another process holds the root."""
    from flycore.model.enums import KernelRole
    from flycore.offline.panic import stop_everything
    from flycore.offline.root import take_root
    from flytui.cli.documents import PanicDocument

    with take_root(places, KernelRole.PANIC) as root:
        done = stop_everything(root)
    if done.unrecorded:
        print_error(f"everything is stopped, but the log could not be written: {done.unrecorded}")
    return PanicDocument(
        app_root=str(places.app_root), kernel=False, already=done.already, message=AT_A_TERMINAL
    )


def _end_unanswering(places: RootPaths, busy: RootBusy) -> tuple[PanicDocument, int]:
    """Ends a process that holds the root and does not answer. Returns the exit code as well."""
    from flycore.offline.panic import end_kernel
    from flytui.cli.documents import PanicDocument
    from flytui.cli.interrupts import run_async

    ended = run_async(lambda: end_kernel(places))
    holder = f"pid {busy.pid} ({busy.role}) held this root and did not answer"
    if ended:
        message = f"{holder}: it was ended with what it ran. {AT_A_TERMINAL}"
        document = PanicDocument(
            app_root=str(places.app_root), kernel=False, already=False, ended_pid=busy.pid, message=message
        )
        return document, 0
    message = (
        f"{holder}, and could not be ended: what it runs was not stopped. "
        f"End it: kill -9 {busy.pid}. The next kernel starts stopped."
    )
    document = PanicDocument(
        app_root=str(places.app_root), kernel=False, already=False, stopped=False, message=message
    )
    return document, EXIT_NOT_SURE


def _release(invocation: Invocation, places: RootPaths) -> int:
    from flycore.model.enums import KernelRole
    from flycore.model.errors import RootBusy
    from flycore.offline.panic import read_panic, release_everything
    from flycore.offline.root import LASTING_ROLES
    from flytui.cli.kernel_query import hold_root, query_kernel

    async def role(client: Client) -> str:
        return (await client.status()).role

    stopped = read_panic(places)
    if stopped is None:
        return _not_released("nothing is stopped here", 0)
    holder = query_kernel(places, role)
    if holder is not None and holder in LASTING_ROLES:
        return _not_released(_release_place(holder))
    if invocation.as_json or not can_ask():
        return _not_released("not released: this has to be confirmed on a terminal, or in the console")
    print_line(f"everything is stopped, by {stopped.by}")
    if not ask_yes_no("Release it, so that calls run again?"):
        return _not_released("not released; everything stays stopped")
    try:
        with hold_root(places, KernelRole.PANIC) as root:
            outcome = release_everything(root, stopped)
    except RootBusy as busy:
        return _not_released(f"not released: pid {busy.pid} ({busy.role}) holds this root now")
    if not outcome.accepted:
        return _not_released(f"not released: {outcome.why_not}")
    print_error("released: calls run again")
    return 0


def _not_released(why: str, code: int = EXIT_NOT_RELEASED) -> int:
    print_error(why)
    return code
