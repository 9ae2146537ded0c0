"""`flytui connect`: writes flytui into an agent's settings, after a person has seen the difference."""

from __future__ import annotations

import os

import click

from flycore.client.client import KernelClient
from flycore.model.status import Status
from flycore.offline.connect import (
    CLIENT_NAMES,
    ConnectPlan,
    Part,
    apply_plan,
    home_of,
    plan_connect,
    plan_removal,
)
from flycore.offline.tokens import make_token, read_tokens
from flycore.registry.paths import RootPaths
from flytui.cli.client_configs import connection
from flytui.cli.commands.token import change_token
from flytui.cli.documents import ConnectDocument, ConnectedFile
from flytui.cli.early_mcp import store_list
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_running_kernel
from flytui.cli.output import (
    ask_yes_no,
    can_ask,
    count_of,
    print_difference,
    print_error,
    print_json,
    print_line,
)

EXIT_NOT_ASKED = 4
EXIT_REFUSED = 5


@click.command()
@click.argument("client", type=click.Choice(CLIENT_NAMES))
@click.option("--hook", is_flag=True, help="Also ask you about the program's own tools, by its hook.")
@click.option("--permission", is_flag=True, help="Also spare its own prompt for flytui's tools.")
@click.option(
    "--http",
    "address",
    is_flag=False,
    flag_value="",
    metavar="[ADDRESS]",
    help="Over HTTP, at the address of flytui serve --http, with a token that is made and printed.",
)
@click.option("--remove", is_flag=True, help="Take back exactly what this command wrote.")
@click.option("--apply", is_flag=True, help="Write the difference without asking.")
@common
def connect(
    invocation: Invocation,
    client: str,
    hook: bool,
    permission: bool,
    address: str | None,
    remove: bool,
    apply: bool,
) -> int:
    """Connect an agent's program, such as Claude Code, with the tools of this root.

    Shows the difference of its settings, and asks before it writes. docs/clients has a page for each program.
    """
    if remove and (hook or permission or address):
        raise click.UsageError("--remove takes back everything: leave the other options out")
    places, home = invocation.places(), home_of(os.environ)
    if address == "":
        address = _served_address(places)
    if address is not None and not address.startswith(("http://", "https://")):
        raise click.UsageError(
            "--http takes an address that begins with http:// or https://; without one, "
            "flytui serve --http has to run on this root"
        )
    if remove:
        plan = plan_removal(places, home, client)
    else:
        parts = (
            {Part.SERVER} | ({Part.HOOK} if hook else set()) | ({Part.PERMISSION} if permission else set())
        )
        plan = plan_connect(places, home, client, connection(places, address or ""), frozenset(parts))
    if plan.why_not:
        return _print_outcome(invocation, places, plan, "refused", plan.why_not, EXIT_REFUSED)
    if not invocation.as_json:
        _print_plan(plan, hook=hook, permission=permission, remove=remove)
    if not plan.changes:
        message = f"{client} has nothing of flytui's" if remove else f"{client} is connected already"
        return _print_outcome(invocation, places, plan, "nothing", message, 0)
    if not apply:
        if invocation.as_json or not can_ask():
            message = f"nothing was written: run flytui connect {client} on a terminal, or add --apply"
            return _print_outcome(invocation, places, plan, "shown", message, EXIT_NOT_ASKED)
        if not ask_yes_no(f"Write {count_of(len(plan.changes), 'file')}?"):
            return _print_outcome(invocation, places, plan, "shown", "nothing was written", EXIT_NOT_ASKED)
    why_not = apply_plan(places, home, plan)
    if why_not:
        return _print_outcome(invocation, places, plan, "refused", why_not, EXIT_REFUSED)
    if not remove and address is None:
        store_list(places)
    message = (
        f"{client} is no longer connected" if remove else f"start {client} anew; docs/clients has its page"
    )
    token = ""
    if address:
        token, message = _make_token(places, client, address, message)
    elif remove and client in _token_names(places):
        message = f"{message}; its token is still valid: flytui token revoke {client}"
    return _print_outcome(invocation, places, plan, "written", message, 0, token)


def _served_address(places: RootPaths) -> str:
    """The address at which the running kernel serves MCP over HTTP; empty where none does."""

    async def ask(client: KernelClient) -> Status:
        return await client.status()

    status = ask_running_kernel(places, ask)
    listening = () if status is None else status.listening
    return next((address for address in listening if address.startswith("http://")), "")


def _make_token(places: RootPaths, client: str, address: str, then: str) -> tuple[str, str]:
    """Make the client's token. Return it, empty where there is one already or none could be made, and the
    message that says what to do with it."""
    if client in _token_names(places):
        known = f"put the token of {client} into FLYTUI_TOKEN, or revoke it and make another"
        return "", f"the address is {address}; {known} (flytui token --help); then {then}"
    made = make_token()
    outcome = change_token(places, client, made.digest)
    if not outcome.accepted:
        return "", f"no token was made ({outcome.why_not}): flytui token new {client}"
    put = "put this token, shown only this once, into FLYTUI_TOKEN"
    return made.token, f"the address is {address}; {put}; then {then}"


def _token_names(places: RootPaths) -> tuple[str, ...]:
    return read_tokens(places).names()


def _print_plan(plan: ConnectPlan, *, hook: bool, permission: bool, remove: bool) -> None:
    for change in plan.changes:
        print_difference(change.difference)
    if plan.changes:
        print_line()
    if remove:
        return
    client = plan.client
    if client.note:
        print_line(client.note)
    if hook and client.hook is None:
        print_line(f"{client.title} has no hook: its own tools do not come to flytui.")
    if client.permission is not None and not permission:
        print_line(f"With --permission: {client.permission_text}")
    elif permission and client.permission is None:
        print_line(f"{client.title} has no such line: it asks as its own settings say.")
    if not client.is_tried:
        print_line(
            f"This entry follows {client.documentation}, and was not tried with {client.title} itself."
        )


def _print_outcome(
    invocation: Invocation,
    places: RootPaths,
    plan: ConnectPlan,
    outcome: str,
    message: str,
    code: int,
    token: str = "",
) -> int:
    if invocation.as_json:
        print_json(
            ConnectDocument(
                app_root=str(places.app_root),
                client=plan.client.id,
                files=tuple(
                    ConnectedFile(file=change.file.shown, difference=change.difference)
                    for change in plan.changes
                ),
                outcome=outcome,
                message=message,
                token=token,
            )
        )
        return code
    if outcome == "written":
        for change in plan.changes:
            print_line(f"{change.file.shown} is {'removed' if change.after is None else 'written'}")
    (print_error if code or token else print_line)(message)
    if token:
        click.echo(token)
    return code
