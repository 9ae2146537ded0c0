"""`flytui enable`: switches a sidecar on in its registry file."""

from __future__ import annotations

import click

from flytui.cli.completing import sidecar_names
from flytui.cli.invocation import Invocation, common
from flytui.cli.switching import set_enabled_and_print


@click.command()
@click.argument("sidecar", metavar="SIDECAR", shell_complete=sidecar_names)
@common
def enable(invocation: Invocation, sidecar: str) -> int:
    """Switch SIDECAR on in the file that declares it. Nothing else in the file changes, and nothing is
    trusted by it."""
    return set_enabled_and_print(invocation, sidecar, True, "")
