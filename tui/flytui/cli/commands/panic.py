"""`flytui panic`: stops everything on a root, with a kernel and without; only a person releases it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import ask_yes_no, can_ask, count_of, print_error, print_json, print_line

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.model.errors import RootBusy
    from flycore.registry.paths import RootPaths
    from flytui.cli.documents import PanicDocument

EXIT_NOT_RELEASED = 4
EXIT_NOT_SURE = 7
SETTLE_SECONDS = 10.0
"""How long a root may be held without its kernel answering yet, while it starts or ends."""
LOOK_AGAIN_SECONDS = 0.1
IN_THE_CONSOLE = "release it in the console: ctrl+o"
IN_A_CONSOLE = "release it in a console on flytui serve: flytui, then ctrl+o"
AT_A_TERMINAL = "release it in a console (flytui, then ctrl+o), or on a terminal with flytui panic --release"


@click.command()
@click.option("--release", is_flag=True, help="Take calls again, where no kernel runs; asks on the terminal.")
@common
def panic(invocation: Invocation, release: bool) -> int:
    """Stop everything: calls end, leases end, nothing new is taken until a person releases it."""
    places = invocation.places()
    return _release(invocation, places) if release else _print_stop(invocation, places)


def _print_stop(told: Invocation, places: RootPaths) -> int:
    document, code = _stop_root(places)
    if told.as_json:
        print_json(document)
        return code
    if document.already:
        print_line("everything was stopped already")
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
    """Through the kernel that runs; else in the file that the next one reads."""
    from flycore.model.errors import RootBusy
    from flytui.cli.kernel_query import query_kernel

    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        document = query_kernel(places, _stop_running_kernel)
        if document is not None:
            return document, 0
        try:
            return _stop_offline(places), 0
        except RootBusy as busy:
            if time.monotonic() >= deadline:
                return _stop_unanswered(places, busy), EXIT_NOT_SURE
        time.sleep(LOOK_AGAIN_SECONDS)


async def _stop_running_kernel(client: Client) -> PanicDocument:
    """Stop everything, and say what was there to be stopped."""
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
    """Where a person releases what a kernel of that role has stopped."""
    return {"console": IN_THE_CONSOLE, "serve": IN_A_CONSOLE}.get(role, AT_A_TERMINAL)


def _stop_offline(places: RootPaths) -> PanicDocument:
    """Raises RootBusy while somebody holds the root."""
    from flycore.model.enums import KernelRole
    from flycore.offline.panic import stop_everything
    from flycore.offline.root import take_root
    from flytui.cli.documents import PanicDocument

    with take_root(places, KernelRole.PANIC) as root:
        done = stop_everything(root)
    if done.unrecorded:
        print_error(f"it is stopped, but the log does not take it: {done.unrecorded}")
    return PanicDocument(
        app_root=str(places.app_root), kernel=False, already=done.already, message=AT_A_TERMINAL
    )


def _stop_unanswered(places: RootPaths, busy: RootBusy) -> PanicDocument:
    """Somebody holds the root and does not answer: no kernel that starts after them takes a call."""
    from flycore.offline.panic import stop_next_kernel
    from flytui.cli.documents import PanicDocument

    stop_next_kernel(places)
    message = (
        f"pid {busy.pid} ({busy.role}) holds this root and does not answer: what it runs was not stopped. "
        f"End it: kill {busy.pid}. Whatever starts next is stopped."
    )
    return PanicDocument(app_root=str(places.app_root), kernel=False, already=False, message=message)


def _release(told: Invocation, places: RootPaths) -> int:
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
    if told.as_json or not can_ask():
        return _not_released("not released: that is asked on a terminal, or in the console")
    print_line(f"everything is stopped, by {stopped.by}")
    if not ask_yes_no("Release it, so that calls are taken again?"):
        return _not_released("not released; everything stays stopped")
    try:
        with hold_root(places, KernelRole.PANIC) as root:
            outcome = release_everything(root, stopped)
    except RootBusy as busy:
        return _not_released(f"not released: pid {busy.pid} ({busy.role}) holds this root by now")
    if not outcome.accepted:
        return _not_released(f"not released: {outcome.why_not}")
    print_error("released: calls are taken again")
    return 0


def _not_released(why: str, code: int = EXIT_NOT_RELEASED) -> int:
    print_error(why)
    return code
