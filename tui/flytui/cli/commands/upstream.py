"""`flytui upstream`: lists the MCP servers of the registry, and logs in and out at those over HTTP."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import click
import msgspec

from flycore.client.client import KernelClient
from flycore.model.approval import Outcome
from flycore.model.catalog import SidecarView
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.command_group import SummaryGroup
from flytui.cli.documents import ListedUpstream, UpstreamDocument
from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel, ask_running_kernel, read_catalog
from flytui.cli.output import EXIT_UNKNOWN, print_error, print_json, print_line, print_table
from flytui.cli.terminal_programs import find_browser, view_file
from flytui.text.kernels import clock_time

if TYPE_CHECKING:
    from flycore.offline.logins import KeptLogin

EXIT_REFUSED = 5
BROWSER_S = 2.0
"""How long to wait for the program that opens the browser."""


@click.group(cls=SummaryGroup, invoke_without_command=True)
@common
def upstream(invocation: Invocation) -> int:
    """List the MCP servers of the registry, or log in or out at one."""
    if click.get_current_context().invoked_subcommand is None:
        return _list_servers(invocation, None)
    return 0


@upstream.command("list")
@common
def list_command(invocation: Invocation) -> int:
    """List the MCP servers, whether each is connected, and where you are logged in."""
    return _list_servers(invocation, None)


@upstream.command("status")
@click.argument("sidecar", metavar="ID")
@common
def status_command(invocation: Invocation, sidecar: str) -> int:
    """Show the connection to the server ID and your login there."""
    return _list_servers(invocation, sidecar)


@upstream.command("login")
@click.argument("sidecar", metavar="ID")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@common
def login_command(invocation: Invocation, sidecar: str, no_browser: bool) -> int:
    """Log in at the server ID in your browser.

    The tokens are kept in the system's keyring, or in a file that only you can read.
    """
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.logins import LoginRefused, find_server, keep_login, log_in

    places = invocation.places()

    async def show(address: str) -> None:
        await _show_address(address, open_browser=not no_browser)

    try:
        entry = find_server(places, sidecar)
        login = run_async(lambda: log_in(places, entry, show))
        outcome = _record(places, sidecar, "logged-in")
        if not outcome.accepted:
            return _refuse(invocation, places, outcome.why_not)
        kept_in = keep_login(places, sidecar, login)
    except (LoginRefused, OSError) as refused:
        return _refuse(invocation, places, f"not logged in at {sidecar}: {refused}")
    _connect_again(places, sidecar)
    message = f"logged in at {sidecar}, through {login.issuer}; the tokens are in {kept_in}"
    return _print_done(invocation, places, "logged-in", message)


@upstream.command("logout")
@click.argument("sidecar", metavar="ID")
@common
def logout_command(invocation: Invocation, sidecar: str) -> int:
    """Forget the tokens of the server ID.

    The server itself is not told: what it issued stays valid there until it expires.
    """
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.logins import kept_logins, remove_login

    places = invocation.places()
    try:
        if sidecar not in kept_logins(places):
            message = f"there is no login at {sidecar}: flytui upstream list"
            return _refuse(invocation, places, message, EXIT_UNKNOWN)
        remove_login(places, sidecar)
    except OSError as error:
        return _refuse(invocation, places, f"the logins cannot be changed: {error}")
    # Forgotten first: a log that cannot be written must not keep the tokens.
    outcome = _record(places, sidecar, "logged-out")
    _connect_again(places, sidecar)
    if not outcome.accepted:
        print_error(f"the log does not say so: {outcome.why_not}")
    return _print_done(invocation, places, "logged-out", f"logged out at {sidecar}: its tokens are forgotten")


async def _show_address(address: str, *, open_browser: bool) -> None:
    """Print the address, and open it in the person's browser where there is one."""
    browser = find_browser(os.environ) if open_browser else ""
    print_error("your browser opens; if it does not, open this:" if browser else "open this in your browser:")
    print_error(address)
    if browser:
        # Some programs end at once, others only with the window that they open.
        with suppress(OSError), anyio.move_on_after(BROWSER_S):
            await view_file(browser, address)


def _record(places: RootPaths, sidecar: str, decision: str) -> Outcome:
    """Have the kernel log the change."""

    async def request_change(client: KernelClient) -> Outcome:
        answer = await client.ask_for("login.change", {"sidecar": sidecar, "decision": decision})
        return msgspec.convert(answer, Outcome)

    return ask_kernel(places, request_change)


def _connect_again(places: RootPaths, sidecar: str) -> None:
    """Have a kernel that runs connect to the server at once."""

    async def probe(client: Client) -> bool:
        await client.probe(sidecar)
        return True

    ask_running_kernel(places, probe)


def _list_servers(invocation: Invocation, only: str | None) -> int:
    places = invocation.places()
    rows = _rows(places)
    if only is not None:
        rows = tuple(row for row in rows if row.id == only)
        if not rows:
            message = f"no entry of an MCP server has the id {only}: flytui upstream list"
            return _refuse(invocation, places, message, EXIT_UNKNOWN)
    if invocation.as_json:
        _print_document(rows, "listed")
    elif not rows:
        print_line("no entry of the registry is an MCP server")
    elif only is None:
        shown = [(row.id, row.reached, row.state, _login_text(row)) for row in rows]
        print_table(invocation, ("SERVER", "REACHED AT", "STATE", "LOGIN"), shown)
    else:
        _print_server(rows[0])
    return 0


def _print_server(row: ListedUpstream) -> None:
    print_line(f"{row.id}: {row.state}, {row.reached}")
    if row.why:
        print_line(f"  {row.why}")
        print_line(f"  → {row.remedy}")
    print_line(f"  login: {_login_text(row)}")
    if row.issuer:
        print_line(f"  authorization server: {row.issuer}")
    if row.kept_in:
        print_line(f"  tokens: in {row.kept_in}")


def _login_text(row: ListedUpstream) -> str:
    if row.login == "own-credentials":
        return "by the header of its entry"
    if row.login == "ended":
        return f"ended: it {row.ended}"
    return f"since {clock_time(row.since)}" if row.since is not None else row.login or "–"


def _rows(places: RootPaths) -> tuple[ListedUpstream, ...]:
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.logins import kept_logins

    try:
        logins = kept_logins(places)
    except OSError as error:
        print_error(f"the logins cannot be read: {error}")
        logins = {}
    catalog = read_catalog(places, probes=False)
    servers = (view for view in catalog.sidecars if view.entry.kind.value == "mcp")
    return tuple(_row(view, logins.get(view.id)) for view in servers)


def _row(view: SidecarView, kept: KeptLogin | None) -> ListedUpstream:
    entry, reason = view.entry, next(iter(view.stability.reasons), None)
    kept = kept if kept is not None and kept.login.server == entry.url else None
    login = ""
    if any(name.casefold() == "authorization" for name in entry.headers):
        login = "own-credentials"
    elif entry.url:
        login = "none" if kept is None else "ended" if kept.login.ended else "logged-in"
    return ListedUpstream(
        id=view.id,
        reached=entry.url or " ".join((entry.command, *entry.args)),
        state=view.stability.effective.value,
        why=reason.message if reason else "",
        remedy=reason.remedy if reason else "",
        login=login,
        issuer=kept.login.issuer if kept else "",
        since=kept.login.at if kept and not kept.login.ended else None,
        kept_in=kept.kept_in if kept else "",
        ended=kept.login.ended if kept else "",
    )


def _print_done(invocation: Invocation, places: RootPaths, outcome: str, message: str) -> int:
    if invocation.as_json:
        _print_document(_rows(places), outcome, message)
    else:
        print_line(message)
    return 0


def _print_document(rows: tuple[ListedUpstream, ...], outcome: str, message: str = "") -> None:
    print_json(UpstreamDocument(servers=rows, outcome=outcome, message=message))


def _refuse(invocation: Invocation, places: RootPaths, why: str, code: int = EXIT_REFUSED) -> int:
    if invocation.as_json:
        _print_document(_rows(places), "refused", why)
    print_error(why)
    return code
