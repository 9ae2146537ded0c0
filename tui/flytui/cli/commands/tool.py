"""`flytui tool`: commands of flytui under the names that other systems have for them. Help lists none."""

from __future__ import annotations

from importlib import import_module

import click

from flytui.cli.invocation import Invocation, common

NAMES = {
    "list": ("tools", "list_tools"),
    "invoke": ("call", "call"),
    "status": ("metrics", "metrics"),
}
"""By each other name the module and the attribute of the command."""


class AliasGroup(click.Group):
    """Finds each command where it has its own name. Only the one that is used is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The other names."""
        return list(NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None for an unknown name."""
        if cmd_name not in NAMES:
            return None
        module, attribute = NAMES[cmd_name]
        command = getattr(import_module(f"flytui.cli.commands.{module}"), attribute)
        return command if isinstance(command, click.Command) else None


@click.group(cls=AliasGroup)
@common
def tool(invocation: Invocation) -> int:
    """The same as `flytui tools list`, `flytui call` and `flytui metrics`."""
    return 0
