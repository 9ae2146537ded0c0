"""`flytui trust`: shows what the registry would run, and lets a person say yes to exactly that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import ask_yes_no, can_ask, print_error, print_json, print_line, print_strict

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.client.remote import RemoteClient
    from flycore.model.errors import RootBusy
    from flycore.model.question import TrustItem
    from flycore.model.status import Status
    from flycore.offline.trust import PendingTrust
    from flycore.registry.paths import RootPaths

EXIT_NOT_TRUSTED = 4


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(exists=True, file_okay=False))
@click.option("--print-digest", is_flag=True, help="Show what waits and its digest; change nothing.")
@click.option("--digest", metavar="HEX", help="Trust the waiting entries if this is their digest.")
@click.option("--revoke", is_flag=True, help="Trust nothing of this root any longer.")
@common
def trust(
    invocation: Invocation, folder: str | None, print_digest: bool, digest: str | None, revoke: bool
) -> int:
    """Show what the registry of DIR would run, and trust it. Nothing runs before that."""
    from flycore.model.errors import RootBusy

    if sum((print_digest, digest is not None, revoke)) > 1:
        raise click.UsageError("--print-digest, --digest and --revoke exclude each other")
    told = invocation.narrowed(folder, None, False, False)
    places = told.places()
    try:
        if revoke:
            return _revoke(told, places)
        if digest is not None:
            return _accept(told, places, digest.lower())
        return _show_and_ask(told, places, print_digest)
    except RootBusy as busy:
        return _print_busy(busy)


def _show_and_ask(told: Invocation, places: RootPaths, print_digest: bool) -> int:
    from flycore.offline.root import LASTING_ROLES
    from flycore.offline.trust import read_pending_trust
    from flytui.cli.kernel_query import query_kernel

    pending = read_pending_trust(places)
    if not pending.items:
        return _print_outcome(told, places, pending, "nothing-waits", "nothing waits for trust", 0)
    if not told.as_json:
        _print_items(pending.items)
    if print_digest:
        return _print_outcome(told, places, pending, "shown", "", 0)
    kernel = query_kernel(places, _status)
    if kernel is not None and kernel.role in LASTING_ROLES:
        return _wait_for_console(told, places, pending, kernel)
    if told.as_json or not can_ask():
        message = (
            "not trusted: run flytui trust on a terminal, or flytui trust --digest with the digest shown"
        )
        return _print_outcome(told, places, pending, "shown", message, EXIT_NOT_TRUSTED)
    entries = "this entry" if len(pending.items) == 1 else f"these {len(pending.items)} entries"
    if not ask_yes_no(f"Trust {entries}, so that they may run?"):
        print_error("not trusted; nothing of it runs")
        return EXIT_NOT_TRUSTED
    return _accept(told, places, pending.digest)


def _print_items(items: tuple[TrustItem, ...]) -> None:
    """Every entry as the lines of what it would run; look-alike letters are drawn as tokens."""
    for item in items:
        print_strict(f"{item.sidecar}{'  (changed since it was trusted)' if item.changed else ''}")
        for line in item.lines:
            print_strict(f"  {line}")
        if item.difference:
            print_line("  what differs from the value trusted last, which stays in force:")
        for line in item.difference:
            print_strict(f"    {line}")
        print_line()


def _print_outcome(
    told: Invocation, places: RootPaths, pending: PendingTrust, outcome: str, message: str, code: int
) -> int:
    """Say how it ended, in prose or as the document."""
    if told.as_json:
        from flytui.cli.documents import TrustDocument

        print_json(
            TrustDocument(
                app_root=str(places.app_root),
                digest=pending.digest,
                waiting=pending.items,
                outcome=outcome,
                message=message,
            )
        )
    elif outcome == "shown":
        print_line(f"digest {pending.digest}")
    for finding in pending.store.diagnostics:
        print_error(f"{finding.message} → {finding.remedy}")
    if message and not (told.as_json and code == 0):
        print_error(message)
    return code


def _accept(told: Invocation, places: RootPaths, shown: str) -> int:
    """Trust the set of that digest, and nothing else. Raises RootBusy while a console or `flytui serve`
    holds the root."""
    from flycore.model.enums import KernelRole
    from flycore.offline.trust import CHANGED, accept_trust, read_pending_trust
    from flytui.cli.kernel_query import hold_root

    pending = read_pending_trust(places)
    if pending.digest != shown:  # nobody has to make way for that
        return _print_outcome(told, places, pending, "refused", CHANGED, EXIT_NOT_TRUSTED)
    with hold_root(places, KernelRole.TRUST) as root:
        pending, outcome = accept_trust(root, shown)
    if not outcome.accepted:
        return _print_outcome(told, places, pending, "refused", outcome.why_not, EXIT_NOT_TRUSTED)
    names = ", ".join(item.sidecar for item in pending.items)
    return _print_outcome(told, places, pending, "accepted", f"trusted: {names}", 0)


def _revoke(told: Invocation, places: RootPaths) -> int:
    """Trust nothing of the root any longer: through the kernel that runs, else in the file itself. Raises
    RootBusy where a kernel holds the root and does not answer."""
    from flycore.model.approval import Outcome
    from flycore.model.enums import KernelRole
    from flycore.offline.trust import read_pending_trust, revoke_trust
    from flytui.cli.kernel_query import hold_root, query_kernel

    async def asked(client: RemoteClient) -> Outcome:
        return msgspec.convert(await client.ask_for("trust.revoke"), Outcome)

    outcome = query_kernel(places, asked)
    if outcome is None:
        with hold_root(places, KernelRole.TRUST) as root:
            outcome = revoke_trust(root)
    pending = read_pending_trust(places)
    if not outcome.accepted:
        return _print_outcome(told, places, pending, "refused", outcome.why_not, EXIT_NOT_TRUSTED)
    return _print_outcome(told, places, pending, "revoked", "nothing of this root is trusted any longer", 0)


async def _status(client: Client) -> Status:
    return await client.status()


def _print_busy(busy: RootBusy) -> int:
    if busy.role == "console":
        print_error(
            f"a console is open on this root (pid {busy.pid}): press T there to decide, or close it first"
        )
    elif busy.role == "serve":
        print_error(
            f"flytui serve holds this root (pid {busy.pid}): press T in a console on it (flytui) to decide, "
            "or end it first"
        )
    else:
        print_error(f"pid {busy.pid} ({busy.role}) holds this root: try again when it has left")
    return EXIT_NOT_TRUSTED


def _wait_for_console(told: Invocation, places: RootPaths, pending: PendingTrust, kernel: Status) -> int:
    """The question stands before the console, or before each one that attaches to `flytui serve`; wait until
    it is answered there, or until interrupted."""
    from flycore.client.remote import connect_unix
    from flycore.model.errors import ConnectionLost, KernelUnreachable
    from flytui.cli.interrupts import run_async

    if kernel.role == "console":
        print_error(f"this is answered in the console, pid {kernel.pid}: press T there. Waiting…")
    else:
        print_error(
            f"this is answered in a console (flytui) on flytui serve, pid {kernel.pid}: press T. Waiting…"
        )

    async def wait() -> None:
        async with connect_unix(places.socket, viewer=True) as client, client.events() as events:
            while await client.pending_trust():
                await anext(events, None)

    try:
        run_async(wait)
    except (ConnectionLost, KernelUnreachable):
        closed = "the console" if kernel.role == "console" else "flytui serve"
        message = f"{closed} was closed before it was answered"
        return _print_outcome(told, places, pending, "at-console", message, EXIT_NOT_TRUSTED)
    return _print_outcome(
        told, places, pending, "accepted", "answered in the console: nothing waits any more", 0
    )
