"""`flytui token`: makes, lists and revokes the tokens of clients over TCP and HTTP."""

from __future__ import annotations

import click
import msgspec

from flycore.client.audit_log import logged_calls
from flycore.client.client import KernelClient
from flycore.model.approval import Outcome
from flycore.model.json import JsonObject
from flycore.offline.tokens import make_token, read_tokens, token_url
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.command_group import SummaryGroup
from flytui.cli.credential_documents import ListedToken, TokenDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel, ask_running_kernel
from flytui.cli.output import EXIT_UNKNOWN, print_error, print_json, print_line, print_table
from flytui.text.kernels import clock_time

EXIT_REFUSED = 4
DEFAULT_ADDRESS = "ws://127.0.0.1:8787/ws"
"""The address of `flytui serve --tcp` where the port is free."""


@click.group(cls=SummaryGroup, invoke_without_command=True)
@common
def token(invocation: Invocation) -> int:
    """List, make or revoke tokens for clients over TCP and HTTP."""
    if click.get_current_context().invoked_subcommand is None:
        return _list_tokens(invocation)
    return 0


@token.command("list")
@common
def list_command(invocation: Invocation) -> int:
    """List the names of the tokens, when each was made, and its last call.

    A token itself is never shown again.
    """
    return _list_tokens(invocation)


@token.command("new")
@click.argument("name")
@common
def new(invocation: Invocation, name: str) -> int:
    """Make a token for the client NAME and print it, only this once.

    NAME (1 to 32 of a-z 0-9 . _ -) is the caller on cards, in rules and in the log. Make one token for
    each client.
    """
    places, made = invocation.places(), make_token()
    outcome = change_token(places, name, made.digest)
    if not outcome.accepted:
        return _print_refusal(invocation, places, outcome.why_not, EXIT_REFUSED)
    message = f"this is the token of {name}, shown only this once: send it as Authorization: Bearer …"
    if invocation.as_json:
        _print_document(places, "made", token=made.token, message=message)
        return 0
    print_error(message)
    click.echo(made.token)
    return 0


@token.command("url")
@click.argument("name")
@common
def url(invocation: Invocation, name: str) -> int:
    """Make a token for the client NAME and print it as a URL, only this once.

    The URL is for a client that cannot send headers, such as Flyflor's: FLYFLOR_WS_URL="$(flytui token url
    NAME)". Its token opens the WebSocket over TCP on this machine, which flytui serve --tcp serves, and
    nothing else.
    """
    places, made = invocation.places(), make_token()
    address = _served_address(places)
    outcome = change_token(places, name, made.digest, in_url=True)
    if not outcome.accepted:
        return _print_refusal(invocation, places, outcome.why_not, EXIT_REFUSED)
    message = f"this URL holds the token of {name}, shown only this once: whoever has it is {name} here"
    if not address:
        message += f"; flytui serve --tcp does not run, and serves {DEFAULT_ADDRESS} if the port is free then"
    found = token_url(address or DEFAULT_ADDRESS, made.token)
    if invocation.as_json:
        _print_document(places, "made", token=found, message=message)
        return 0
    print_error(message)
    click.echo(found)
    return 0


@token.command("revoke")
@click.argument("name")
@common
def revoke(invocation: Invocation, name: str) -> int:
    """Revoke the token of the client NAME.

    The client can no longer connect, and its open connections end at once.
    """
    places = invocation.places()
    if name not in read_tokens(places).names():
        return _print_refusal(
            invocation, places, f"there is no token {name}: flytui token list", EXIT_UNKNOWN
        )
    outcome = change_token(places, name, None)
    if not outcome.accepted:
        return _print_refusal(invocation, places, outcome.why_not, EXIT_REFUSED)
    message = f"the token of {name} is no longer valid"
    if invocation.as_json:
        _print_document(places, "revoked", message=message)
    else:
        print_line(message)
    return 0


def _served_address(places: RootPaths) -> str:
    """Return the WebSocket address of the kernel that runs; empty if there is none."""

    async def read_status(client: Client) -> tuple[str, ...]:
        return (await client.status()).listening

    listening = ask_running_kernel(places, read_status) or ()
    return next((address for address in listening if address.startswith("ws://")), "")


def change_token(places: RootPaths, name: str, digest: str | None, *, in_url: bool = False) -> Outcome:
    """Adds the token of that digest for the client, or revokes the client's token if the digest is None."""

    async def request_change(client: KernelClient) -> Outcome:
        if digest is None:
            answer = await client.ask_for("token.revoke", {"name": name})
        else:
            wanted: JsonObject = {"name": name, "digest": digest, **({"inUrl": True} if in_url else {})}
            answer = await client.ask_for("token.add", wanted)
        return msgspec.convert(answer, Outcome)

    return ask_kernel(places, request_change)


def _list_tokens(invocation: Invocation) -> int:
    places = invocation.places()
    store = read_tokens(places)
    if store.problem:
        print_error(
            f"the list of tokens cannot be used, so no client can connect: {store.problem} ({store.path})"
        )
    if invocation.as_json:
        _print_document(places, "listed")
        return 0
    shown = _listed_tokens(places)
    if not shown:
        print_line("no client may connect over TCP or HTTP: flytui token new NAME makes a token for one")
        return 0
    rows = [
        (
            one.name,
            "URL over TCP" if one.in_url else "header",
            clock_time(one.created_at),
            _time_text(one.last_call_at),
        )
        for one in shown
    ]
    print_table(invocation, ("NAME", "COMES IN", "CREATED", "LAST CALL"), rows)
    return 0


def _time_text(moment: float | None) -> str:
    return "–" if moment is None else clock_time(moment)


def _listed_tokens(places: RootPaths) -> tuple[ListedToken, ...]:
    tokens = read_tokens(places).tokens()
    last: dict[str, float] = {}
    for call in logged_calls(places) if tokens else ():  # newest first
        last.setdefault(call.caller.key, call.started_at)
    return tuple(
        ListedToken(
            name=one.name,
            created_at=one.created_at,
            in_url=one.in_url,
            last_call_at=max((last[key] for key in one.keys if key in last), default=None),
        )
        for one in tokens
    )


def _print_document(places: RootPaths, outcome: str, *, token: str = "", message: str = "") -> None:
    tokens = _listed_tokens(places)
    print_json(TokenDocument(tokens=tokens, outcome=outcome, token=token, message=message))


def _print_refusal(invocation: Invocation, places: RootPaths, why: str, code: int) -> int:
    if invocation.as_json:
        _print_document(places, "refused", message=why)
    print_error(why)
    return code
