"""`flytui trust`: shows what the registry would run, and trusts exactly that after a person agreed."""

from __future__ import annotations

import time

import click
import msgspec

from flycore.client.client import KernelClient, connect_root
from flycore.model.approval import Outcome
from flycore.model.diagnostics import Diagnostic
from flycore.model.errors import ConnectionLost, KernelUnreachable
from flycore.model.question import TrustItem
from flycore.model.status import Status
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.documents import TrustDocument
from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel, console_has_root, decide
from flytui.cli.output import ask_yes_no, can_ask, print_error, print_json, print_line, print_strict
from flytui.text.trust_rows import elsewhere_text

EXIT_NOT_TRUSTED = 4
TRUST_RULE = "trust-file"
CHANGED = "not trusted: the waiting entries have another digest now; run flytui trust again"


class PendingTrust(msgspec.Struct, frozen=True):
    """The entries that wait for trust, as the root's files are now."""

    items: tuple[TrustItem, ...]
    diagnostics: tuple[Diagnostic, ...]
    """Why the file of the trusted entries cannot be read."""
    kernel: Status

    @property
    def digest(self) -> str:
        """The digest of all waiting entries together; empty if none waits."""
        # Most of the kernel, for which `flytui --help` would wait.
        from flycore.offline.trust import set_digest

        return set_digest(self.items) if self.items else ""


def read_pending_trust(places: RootPaths) -> PendingTrust:
    """Returns what waits for trust."""

    async def question(client: Client) -> PendingTrust:
        found = (await client.catalog(True)).diagnostics
        broken = tuple(one for one in found if one.rule == TRUST_RULE)
        return PendingTrust(await client.pending_trust(), broken, await client.status())

    return ask_kernel(places, question)


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(exists=True, file_okay=False))
@click.option(
    "--print-digest", is_flag=True, help="Show the waiting entries and their digest; change nothing."
)
@click.option("--digest", metavar="HEX", help="Trust the waiting entries if they have this digest.")
@click.option("--revoke", is_flag=True, help="Remove all trust from this root.")
@common
def trust(
    invocation: Invocation, folder: str | None, print_digest: bool, digest: str | None, revoke: bool
) -> int:
    """Show what the registry of DIR would run, and trust it.

    flytui starts no program of a registry before you trust it.
    """
    if sum((print_digest, digest is not None, revoke)) > 1:
        raise click.UsageError("--print-digest, --digest and --revoke cannot be combined")
    invocation = invocation.narrowed((folder,) if folder is not None else (), None, False, False)
    places = invocation.places()
    if revoke:
        return _revoke(invocation, places)
    if digest is not None:
        return _accept(invocation, places, digest.lower())
    return _show_and_ask(invocation, places, print_digest)


def _show_and_ask(invocation: Invocation, places: RootPaths, print_digest: bool) -> int:
    pending = read_pending_trust(places)
    if not pending.items:
        return _print_outcome(invocation, places, pending, "nothing-waits", "nothing waits for trust", 0)
    if not invocation.as_json:
        _print_items(pending.items)
    if print_digest:
        return _print_outcome(invocation, places, pending, "shown", "", 0)
    if not pending.kernel.on_demand:
        return _wait_for_console(invocation, places, pending, pending.kernel)
    if invocation.as_json or not can_ask():
        message = (
            "not trusted: run flytui trust on a terminal, or flytui trust --digest with the digest shown"
        )
        return _print_outcome(invocation, places, pending, "shown", message, EXIT_NOT_TRUSTED)
    entries = "this entry" if len(pending.items) == 1 else f"these {len(pending.items)} entries"
    if not ask_yes_no(f"Trust {entries}, so that they may run?"):
        print_error("not trusted; nothing of it runs")
        return EXIT_NOT_TRUSTED
    return _accept(invocation, places, pending.digest)


def _print_items(items: tuple[TrustItem, ...]) -> None:
    """Prints what each entry would run; look-alike letters are shown as tokens."""
    for item in items:
        print_strict(f"{item.sidecar}{'  (changed since it was trusted)' if item.changed else ''}")
        for line in item.lines:
            print_strict(f"  {line}", indented=True)
        if item.difference:
            print_line("  what differs from the value trusted last, which stays in use:")
        for line in item.difference:
            print_strict(f"    {line}")
        _print_elsewhere(item)
        print_line()


def _print_elsewhere(item: TrustItem) -> None:
    """Prints what is trusted of the entry in another worktree or clone of the same repository."""
    if item.elsewhere is None or (item.changed and not item.elsewhere.same):
        return
    print_strict(f"  {elsewhere_text(item.elsewhere, time.time())}", one_line=True)
    for line in item.elsewhere.difference:
        print_strict(f"    {line}")


def _print_outcome(
    invocation: Invocation, places: RootPaths, pending: PendingTrust, outcome: str, message: str, code: int
) -> int:
    """Prints how the command ended, as text or as the JSON document. Returns the exit code."""
    if invocation.as_json:
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
    for finding in pending.diagnostics:
        print_error(f"{finding.message} → {finding.remedy}")
    if message and not (invocation.as_json and code == 0):
        print_error(message)
    return code


def _accept(invocation: Invocation, places: RootPaths, shown: str) -> int:
    """Trusts the waiting entries if they have that digest and no console has to decide it."""
    pending = read_pending_trust(places)
    if pending.digest != shown:
        return _print_outcome(invocation, places, pending, "refused", CHANGED, EXIT_NOT_TRUSTED)
    if busy := console_has_root(pending.kernel):
        message = f"{busy}: press T there to decide, or close it first"
        return _print_outcome(invocation, places, pending, "refused", message, EXIT_NOT_TRUSTED)
    pairs = tuple((item.sidecar, item.digest) for item in pending.items)
    outcome = decide(places, lambda approver: approver.trust(pairs))
    if not outcome.accepted:
        return _print_outcome(invocation, places, pending, "refused", outcome.why_not, EXIT_NOT_TRUSTED)
    names = ", ".join(item.sidecar for item in pending.items)
    return _print_outcome(invocation, places, pending, "accepted", f"trusted: {names}", 0)


def _revoke(invocation: Invocation, places: RootPaths) -> int:
    """Removes all trust from the root, which every kernel does at once: it takes rights away only."""

    async def request_revoke(client: KernelClient) -> Outcome:
        return msgspec.convert(await client.ask_for("trust.revoke"), Outcome)

    outcome = ask_kernel(places, request_revoke)
    pending = read_pending_trust(places)
    if not outcome.accepted:
        return _print_outcome(invocation, places, pending, "refused", outcome.why_not, EXIT_NOT_TRUSTED)
    return _print_outcome(
        invocation, places, pending, "revoked", "nothing of this root is trusted any longer", 0
    )


def _wait_for_console(
    invocation: Invocation, places: RootPaths, pending: PendingTrust, kernel: Status
) -> int:
    """Waits until the entries are decided in the console, or in one attached to `flytui serve`, or until
    it is interrupted. Returns the exit code."""
    if kernel.role == "console":
        print_error(f"answer this in the console, pid {kernel.pid}: press T there. Waiting…")
    else:
        print_error(
            f"answer this in a console (flytui) attached to flytui serve, pid {kernel.pid}: press T. Waiting…"
        )

    async def wait() -> None:
        # Subscribed before the first question, so that a decision made in between is not missed.
        async with connect_root(places, viewer=True) as client, client.events() as events:
            while await client.pending_trust():
                await anext(events, None)

    try:
        run_async(wait)
    except (ConnectionLost, KernelUnreachable):
        closed = "the console" if kernel.role == "console" else "flytui serve"
        message = f"{closed} was closed before it was answered"
        return _print_outcome(invocation, places, pending, "at-console", message, EXIT_NOT_TRUSTED)
    return _print_outcome(
        invocation, places, pending, "accepted", "answered in the console: no entry waits any more", 0
    )
