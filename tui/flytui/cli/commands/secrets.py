"""`flytui secrets`: keeps declared secrets in the system's keyring, and lists their names."""

from __future__ import annotations

import os
import sys

import click

from flytui.cli.command_group import SummaryGroup
from flytui.cli.documents import ListedSecret, SecretsDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_error, print_json, print_line, print_table

EXIT_REFUSED = 5


@click.group(cls=SummaryGroup, invoke_without_command=True)
@common
def secrets(invocation: Invocation) -> int:
    """List the declared secrets, or keep one in the system's keyring."""
    if click.get_current_context().invoked_subcommand is None:
        return _list_secrets(invocation)
    return 0


@secrets.command("list")
@common
def list_command(invocation: Invocation) -> int:
    """List the names of the declared secrets and where each one is found.

    No value is ever printed.
    """
    return _list_secrets(invocation)


@secrets.command("set")
@click.argument("name")
@common
def set_command(invocation: Invocation, name: str) -> int:
    """Keep the secret NAME in the system's keyring.

    Its value is read from the terminal without echo, or from standard input, never from the command line.
    """
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.secrets import keep_secret

    if not name.isidentifier() or not name.isascii():
        return _refuse(f"{name} is not the name of a variable")
    value = _read_value(name)
    problem = keep_secret(name, value, os.environ)
    if problem:
        return _refuse(problem)
    message = f"{name} is in the system's keyring; R in the console has flytui look for it at once"
    if invocation.as_json:
        _print_document(invocation, message)
    else:
        print_line(message)
    return 0


def _refuse(why: str) -> int:
    print_error(why)
    return EXIT_REFUSED


def _read_value(name: str) -> str:
    """The value, without the end of its line."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.secrets import LONGEST

    if sys.stdin.isatty():
        return str(click.prompt(name, hide_input=True, err=True))
    data = sys.stdin.buffer.read(4 * LONGEST + 2)
    return data.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")


def _list_secrets(invocation: Invocation) -> int:
    if invocation.as_json:
        _print_document(invocation, "")
        return 0
    rows = _rows(invocation)
    if not rows:
        print_line("no entry declares a secret")
        return 0
    print_table(invocation, ("SECRET", "FOUND IN", "DECLARED BY"), rows)
    return 0


def _rows(invocation: Invocation) -> list[tuple[str, str, str]]:
    """Name, place and sidecars of each declared secret."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.secrets import list_secrets

    found = list_secrets(invocation.places(), dict(os.environ))
    return [(item.name, item.found_in or "–", ", ".join(item.sidecars)) for item in found]


def _print_document(invocation: Invocation, message: str) -> None:
    listed = (
        ListedSecret(name=name, found_in="" if place == "–" else place, sidecars=tuple(by.split(", ")))
        for name, place, by in _rows(invocation)
    )
    print_json(SecretsDocument(secrets=tuple(listed), message=message))
