"""`flytui disable`: switches a sidecar off in its registry file."""

from __future__ import annotations

import click

from flytui.cli.commands.enable import set_enabled_and_print
from flytui.cli.invocation import Invocation, common
from flytui.cli.shell_completion import sidecar_names


@click.command()
@click.argument("sidecar", metavar="SIDECAR", shell_complete=sidecar_names)
@click.option("--reason", required=True, help="Why it is off; kept in the file and shown beside the entry.")
@common
def disable(invocation: Invocation, sidecar: str, reason: str) -> int:
    """Switch SIDECAR off in the file that declares it.

    flytui starts nothing of it any more. Running calls end by themselves.
    """
    return set_enabled_and_print(invocation, sidecar, False, " ".join(reason.split()))
