"""A click group whose commands are imported when they are asked for: start-up is part of the work."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = (
    "catalog",
    "inspect",
    "why",
    "doctor",
    "lint",
    "preflight",
    "call",
    "mcp",
    "hook",
    "tools",
    "init",
    "trust",
    "enable",
    "disable",
    "approvals",
    "activity",
    "grants",
    "panic",
    "token",
    "policy",
    "status",
    "serve",
    "demo",
    "audit",
    "metrics",
    "config",
    "sidecar",
    "schema",
    "completion",
)
"""In the order of the help. Command NAME is the attribute `NAME` of `flytui.cli.commands.NAME`."""


class LazyGroup(click.Group):
    """Finds a command in the module that carries its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, without importing one."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None for a name there is not."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"flytui.cli.commands.{cmd_name}")
        command = getattr(module, cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module.__name__}.{cmd_name} is no command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest names for a command there is not."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from flycore.model.suggest import nearest

            near = nearest(args[0], COMMANDS)
            hint = f"Did you mean {' or '.join(near)}?" if near else "flytui --help lists them all."
            ctx.fail(f"There is no command {args[0]}. {hint}")
        return super().resolve_command(ctx, args)
