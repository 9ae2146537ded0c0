"""`flytui panic`: stops everything on a root, with a kernel and without; only a person releases it."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import emit, note, say

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.kernel.panic import Stopped
    from flycore.model.canonical import JsonObject
    from flycore.model.errors import RootBusy
    from flycore.registry.places import Places
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
    return _release(invocation, places) if release else _stop(invocation, places)


def _stop(told: Invocation, places: Places) -> int:
    document, code = _stopped(places)
    if told.as_json:
        emit(document)
        return code
    if document.already:
        say("everything was stopped already")
    else:
        ended = (
            f"{_count(len(document.calls), 'call')} ended, {_count(document.requests, 'request')} refused, "
            f"{_count(document.leases, 'lease')} ended"
        )
        say(f"everything is stopped: {ended}" if document.kernel else "everything is stopped: no kernel ran")
    for call in document.calls:
        say(f"  ended  {call.tool}  {call.call_id}  by {call.caller}")
    note(document.message)
    return code


def _stopped(places: Places) -> tuple[PanicDocument, int]:
    """Through the kernel that runs; else in the file that the next one reads."""
    from flycore.model.errors import RootBusy
    from flytui.cli.reading import ask_running

    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        document = ask_running(places, _pull)
        if document is not None:
            return document, 0
        try:
            return _without_kernel(places), 0
        except RootBusy as busy:
            if time.monotonic() >= deadline:
                return _mute(places, busy), EXIT_NOT_SURE
        time.sleep(LOOK_AGAIN_SECONDS)


async def _pull(client: Client) -> PanicDocument:
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
        message=_where(status.role),
    )


def _where(role: str) -> str:
    """Where a person releases what a kernel of that role has stopped."""
    return {"console": IN_THE_CONSOLE, "serve": IN_A_CONSOLE}.get(role, AT_A_TERMINAL)


def _without_kernel(places: Places) -> PanicDocument:
    """Raises RootBusy while somebody holds the root."""
    from flycore.audit.events import PANIC
    from flycore.audit.events import panic as fields
    from flycore.kernel.lock import RootLock
    from flycore.kernel.panic import read_panic
    from flycore.model.errors import AuditUnwritable
    from flytui.cli.documents import PanicDocument

    with RootLock.acquire(places, role="panic"):
        already = read_panic(places.state_dir) is not None
        if not already:
            who = _write(places)
            try:
                _record(places, PANIC, fields(who, calls=0, requests=0, leases=0))
            except AuditUnwritable as error:
                note(f"it is stopped, but the log does not take it: {error.cause}")
    return PanicDocument(app_root=str(places.app_root), kernel=False, already=already, message=AT_A_TERMINAL)


def _mute(places: Places, busy: RootBusy) -> PanicDocument:
    """Somebody holds the root and does not answer: no kernel that starts after them takes a call."""
    from flytui.cli.documents import PanicDocument

    _write(places)
    message = (
        f"pid {busy.pid} ({busy.role}) holds this root and does not answer: what it runs was not stopped. "
        f"End it: kill {busy.pid}. Whatever starts next is stopped."
    )
    return PanicDocument(app_root=str(places.app_root), kernel=False, already=False, message=message)


def _write(places: Places) -> str:
    from flycore.approval.callers import identify_peer
    from flycore.kernel.panic import Stopped, write_panic

    who = str(identify_peer(os.getpid(), "cli"))
    write_panic(places.state_dir, Stopped(at=time.time(), by=who))
    return who


def _release(told: Invocation, places: Places) -> int:
    from flycore.kernel.lock import FOR_GOOD
    from flycore.kernel.panic import read_panic
    from flycore.model.errors import RootBusy
    from flytui.cli.reading import ask_running

    async def role(client: Client) -> str:
        return (await client.status()).role

    stopped = read_panic(places.state_dir)
    if stopped is None:
        return _not_released("nothing is stopped here", 0)
    holder = ask_running(places, role)
    if holder is not None and holder in FOR_GOOD:
        return _not_released(_where(holder))
    if told.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _not_released("not released: that is asked on a terminal, or in the console")
    say(f"everything is stopped, by {stopped.by}")
    click.echo("Release it, so that calls are taken again? y/N ", nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        return _not_released("not released; everything stays stopped")
    try:
        return _released(places, stopped)
    except RootBusy as busy:
        return _not_released(f"not released: pid {busy.pid} ({busy.role}) holds this root by now")


def _released(places: Places, shown: Stopped) -> int:
    """Let calls run again, where it still is what was shown. Raises RootBusy."""
    from flycore.audit.events import PANIC_RELEASED, panic_released
    from flycore.kernel.panic import clear_panic, read_panic
    from flytui.cli.holding import held_root

    with held_root(places, role="panic"):
        if read_panic(places.state_dir) != shown:
            return _not_released("not released: it was stopped anew meanwhile")
        _record(places, PANIC_RELEASED, panic_released("flytui panic --release"))
        clear_panic(places.state_dir)
    note("released: calls are taken again")
    return 0


def _not_released(why: str, code: int = EXIT_NOT_RELEASED) -> int:
    note(why)
    return code


def _record(places: Places, event: str, fields: JsonObject) -> None:
    """Write to the log of a root whose lock is held. Raises AuditUnwritable."""
    from flycore.audit.log import AuditLog

    anchors = places.anchors_file
    log = AuditLog.open(places.audit_dir, anchors, clock=time.time, monotonic=time.monotonic)
    try:
        log.append(event, fields, sync=True)
    finally:
        log.close()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
