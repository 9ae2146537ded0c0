"""`flytui token`: which clients may come in over TCP and HTTP. A token is shown once, when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import clock_time, emit, note, say, table
from flytui.cli.unknown import EXIT_UNKNOWN

if TYPE_CHECKING:
    from flycore.client.socket import SocketClient
    from flycore.model.approval import Outcome
    from flycore.model.canonical import JsonObject
    from flycore.registry.places import Places
    from flycore.serve.tokens import TokenBook
    from flytui.cli.token_document import TokenShown

EXIT_REFUSED = 4
BY = "flytui token, while no kernel ran"


@click.group(invoke_without_command=True)
@common
def token(invocation: Invocation) -> int:
    """Let clients in over TCP and HTTP, each by a token of its own."""
    if click.get_current_context().invoked_subcommand is None:
        return _listed(invocation)
    return 0


@token.command("list")
@common
def list_command(invocation: Invocation) -> int:
    """Names, when they were made, and their last call. No token is ever shown again."""
    return _listed(invocation)


@token.command("new")
@click.argument("name")
@common
def new(invocation: Invocation, name: str) -> int:
    """Make a token for the client NAME and print it, this once.

    NAME (1 to 32 of a-z 0-9 . _ -) is who calls, on cards, in rules and in the log. One token per client.
    """
    from flycore.serve.tokens import digest_of, mint

    places, made = invocation.places(), mint()
    outcome = _changed(places, "token.add", {"name": name, "digest": digest_of(made)})
    if not outcome.accepted:
        return _refused(invocation, places, outcome.why_not, EXIT_REFUSED)
    message = f"this is the token of {name}, shown this once: send it as Authorization: Bearer …"
    if invocation.as_json:
        _emit(places, "made", token=made, message=message)
        return 0
    note(message)
    click.echo(made)
    return 0


@token.command("revoke")
@click.argument("name")
@common
def revoke(invocation: Invocation, name: str) -> int:
    """Let the client NAME in no longer; its open connections end at once."""
    places = invocation.places()
    if name not in _book(places).names():
        return _refused(invocation, places, f"there is no token {name}: flytui token list", EXIT_UNKNOWN)
    outcome = _changed(places, "token.revoke", {"name": name})
    if not outcome.accepted:
        return _refused(invocation, places, outcome.why_not, EXIT_REFUSED)
    message = f"the token of {name} is worth nothing any more"
    if invocation.as_json:
        _emit(places, "revoked", message=message)
    else:
        say(message)
    return 0


def _changed(places: Places, kind: str, payload: JsonObject) -> Outcome:
    """Through the kernel that runs, which writes all state; else in the file itself, under its lock. Raises
    RootBusy where a kernel holds the root and does not answer."""
    import msgspec

    from flycore.model.approval import Outcome
    from flytui.cli.reading import ask_running

    async def asked(client: SocketClient) -> Outcome:
        return msgspec.convert(await client.ask_for(kind, payload), Outcome)

    return ask_running(places, asked) or _changed_in_file(places, kind, payload)


def _changed_in_file(places: Places, kind: str, payload: JsonObject) -> Outcome:
    from flycore.audit.events import TOKEN_CHANGED, token_changed
    from flycore.model.approval import Outcome
    from flycore.model.errors import TokenRefused
    from flytui.cli.holding import held_root
    from flytui.cli.recording import record

    name, making = str(payload["name"]), kind == "token.add"

    def noted() -> None:
        record(places, TOKEN_CHANGED, token_changed(name, "made" if making else "revoked", by=BY))

    with held_root(places, role="token"):
        book = _book(places)
        try:
            if making:
                book.add(name, str(payload["digest"]), noted)
                return Outcome(accepted=True)
            there = book.revoke(name, noted)
        except TokenRefused as refused:
            return Outcome(accepted=False, why_not=str(refused))
    return Outcome(accepted=there, why_not="" if there else "it was gone already")


def _book(places: Places) -> TokenBook:
    from flycore.serve.tokens import TokenBook

    return TokenBook.load(places.state_dir)


def _listed(invocation: Invocation) -> int:
    places = invocation.places()
    book = _book(places)
    if book.problem:
        note(f"the tokens cannot be relied on, so nobody is let in: {book.problem} ({book.path})")
    if invocation.as_json:
        _emit(places, "listed")
        return 0
    shown = _shown(places)
    if not shown:
        say("no client may come in over TCP or HTTP: flytui token new NAME lets one in")
        return 0
    rows = [(one.name, clock_time(one.created_at), _when(one.last_call_at)) for one in shown]
    table(invocation, ("NAME", "CREATED", "LAST CALL"), rows)
    return 0


def _when(moment: float | None) -> str:
    return "–" if moment is None else clock_time(moment)


def _shown(places: Places) -> tuple[TokenShown, ...]:
    from flytui.cli.reading import logged_calls
    from flytui.cli.token_document import TokenShown

    tokens = _book(places).tokens()
    last: dict[str, float] = {}
    for call in logged_calls(places) if tokens else ():  # newest first
        last.setdefault(call.caller.key, call.started_at)
    return tuple(
        TokenShown(
            name=one.name,
            created_at=one.created_at,
            last_call_at=max((last[key] for key in one.keys if key in last), default=None),
        )
        for one in tokens
    )


def _emit(places: Places, outcome: str, *, token: str = "", message: str = "") -> None:
    from flytui.cli.token_document import TokenDocument

    emit(TokenDocument(tokens=_shown(places), outcome=outcome, token=token, message=message))


def _refused(invocation: Invocation, places: Places, why: str, code: int) -> int:
    if invocation.as_json:
        _emit(places, "refused", message=why)
    note(why)
    return code
