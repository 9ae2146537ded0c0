"""`flytui enable`: switches a sidecar on in its registry file, with the edit that the console makes.

The edit never trusts the entry, because the command line cannot prove that a person ran it.
"""

from __future__ import annotations

import os

import click

from flycore.registry.paths import RootPaths
from flytui.cli.commands.trust import read_pending_trust
from flytui.cli.documents import SwitchDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import EXIT_UNKNOWN, print_error, print_json, print_line
from flytui.cli.shell_completion import sidecar_names

EXIT_REFUSED = 5
SUCCESSFUL_OUTCOMES = ("switched", "unchanged")
"""Outcomes after which the entry is in the state that was asked for."""


def set_enabled_and_print(invocation: Invocation, sidecar: str, enabled: bool, reason: str) -> int:
    """Edits the file that declares the entry and prints what was done. Returns exit code 3 for an unknown
    entry, 5 if the file cannot be edited."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.files import set_enabled

    places = invocation.places()
    made = set_enabled(places, os.environ, sidecar, enabled, reason)
    document = SwitchDocument(
        sidecar=sidecar,
        file=made.file,
        enabled=made.enabled,
        outcome=made.outcome,
        message=made.message,
        waits=enabled and made.outcome in SUCCESSFUL_OUTCOMES and _waits(places, sidecar),
    )
    code = {"refused": EXIT_REFUSED, "unknown": EXIT_UNKNOWN}.get(made.outcome, 0)
    if invocation.as_json:
        print_json(document)
        return code
    (print_line if code == 0 else print_error)(document.message)
    if document.waits:
        print_error("you have to trust what would run now: flytui trust, or T in the console")
    return code


def _waits(places: RootPaths, sidecar: str) -> bool:
    return any(item.sidecar == sidecar for item in read_pending_trust(places).items)


@click.command()
@click.argument("sidecar", metavar="SIDECAR", shell_complete=sidecar_names)
@common
def enable(invocation: Invocation, sidecar: str) -> int:
    """Switch SIDECAR on in the file that declares it.

    Nothing else in the file changes. The entry is not trusted by this.
    """
    return set_enabled_and_print(invocation, sidecar, True, "")
