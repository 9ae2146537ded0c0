"""`flytui token`: which clients may come in over TCP and HTTP. A token is shown once, when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import EXIT_UNKNOWN, clock_time, print_error, print_json, print_line, table

if TYPE_CHECKING:
    from flycore.client.remote import RemoteClient
    from flycore.model.approval import Outcome
    from flycore.registry.paths import RootPaths
    from flytui.cli.documents import ListedToken

EXIT_REFUSED = 4


@click.group(invoke_without_command=True)
@common
def token(invocation: Invocation) -> int:
    """Let clients in over TCP and HTTP, each by a token of its own."""
    if click.get_current_context().invoked_subcommand is None:
        return _list_tokens(invocation)
    return 0


@token.command("list")
@common
def list_command(invocation: Invocation) -> int:
    """Names, when they were made, and their last call. No token is ever shown again."""
    return _list_tokens(invocation)


@token.command("new")
@click.argument("name")
@common
def new(invocation: Invocation, name: str) -> int:
    """Make a token for the client NAME and print it, this once.

    NAME (1 to 32 of a-z 0-9 . _ -) is who calls, on cards, in rules and in the log. One token per client.
    """
    from flycore.offline.tokens import make_token

    places, made = invocation.places(), make_token()
    outcome = _change_token(places, name, made.digest)
    if not outcome.accepted:
        return _print_refusal(invocation, places, outcome.why_not, EXIT_REFUSED)
    message = f"this is the token of {name}, shown this once: send it as Authorization: Bearer …"
    if invocation.as_json:
        _print_document(places, "made", token=made.token, message=message)
        return 0
    print_error(message)
    click.echo(made.token)
    return 0


@token.command("revoke")
@click.argument("name")
@common
def revoke(invocation: Invocation, name: str) -> int:
    """Let the client NAME in no longer; its open connections end at once."""
    from flycore.offline.tokens import read_tokens

    places = invocation.places()
    if name not in read_tokens(places).names():
        return _print_refusal(
            invocation, places, f"there is no token {name}: flytui token list", EXIT_UNKNOWN
        )
    outcome = _change_token(places, name, None)
    if not outcome.accepted:
        return _print_refusal(invocation, places, outcome.why_not, EXIT_REFUSED)
    message = f"the token of {name} is worth nothing any more"
    if invocation.as_json:
        _print_document(places, "revoked", message=message)
    else:
        print_line(message)
    return 0


def _change_token(places: RootPaths, name: str, digest: str | None) -> Outcome:
    """Let the client in by the token of that digest, or no longer where it is None: through the kernel that
    runs, which writes all state; else in the file itself, under the root's lock. Raises RootBusy where a
    kernel holds the root and does not answer."""
    import msgspec

    from flycore.model.approval import Outcome
    from flycore.model.enums import KernelRole
    from flycore.offline.tokens import add_token, revoke_token
    from flytui.cli.kernel_query import hold_root, query_kernel

    async def asked(client: RemoteClient) -> Outcome:
        if digest is None:
            answer = await client.ask_for("token.revoke", {"name": name})
        else:
            answer = await client.ask_for("token.add", {"name": name, "digest": digest})
        return msgspec.convert(answer, Outcome)

    outcome = query_kernel(places, asked)
    if outcome is not None:
        return outcome
    with hold_root(places, KernelRole.TOKEN) as root:
        return revoke_token(root, name) if digest is None else add_token(root, name, digest)


def _list_tokens(invocation: Invocation) -> int:
    from flycore.offline.tokens import read_tokens

    places = invocation.places()
    book = read_tokens(places)
    if book.problem:
        print_error(f"the tokens cannot be relied on, so nobody is let in: {book.problem} ({book.path})")
    if invocation.as_json:
        _print_document(places, "listed")
        return 0
    shown = _listed_tokens(places)
    if not shown:
        print_line("no client may come in over TCP or HTTP: flytui token new NAME lets one in")
        return 0
    rows = [(one.name, clock_time(one.created_at), _time_text(one.last_call_at)) for one in shown]
    table(invocation, ("NAME", "CREATED", "LAST CALL"), rows)
    return 0


def _time_text(moment: float | None) -> str:
    return "–" if moment is None else clock_time(moment)


def _listed_tokens(places: RootPaths) -> tuple[ListedToken, ...]:
    from flycore.offline.audit_log import logged_calls
    from flycore.offline.tokens import read_tokens
    from flytui.cli.documents import ListedToken

    tokens = read_tokens(places).tokens()
    last: dict[str, float] = {}
    for call in logged_calls(places) if tokens else ():  # newest first
        last.setdefault(call.caller.key, call.started_at)
    return tuple(
        ListedToken(
            name=one.name,
            created_at=one.created_at,
            last_call_at=max((last[key] for key in one.keys if key in last), default=None),
        )
        for one in tokens
    )


def _print_document(places: RootPaths, outcome: str, *, token: str = "", message: str = "") -> None:
    from flytui.cli.documents import TokenDocument

    print_json(TokenDocument(tokens=_listed_tokens(places), outcome=outcome, token=token, message=message))


def _print_refusal(invocation: Invocation, places: RootPaths, why: str, code: int) -> int:
    if invocation.as_json:
        _print_document(places, "refused", message=why)
    print_error(why)
    return code
