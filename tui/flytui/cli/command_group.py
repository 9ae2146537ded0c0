"""A click group that imports a command only when it is used, so that flytui starts fast."""

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
    "migrate",
    "trust",
    "enable",
    "disable",
    "approvals",
    "activity",
    "undo",
    "grants",
    "panic",
    "token",
    "secrets",
    "policy",
    "status",
    "serve",
    "demo",
    "audit",
    "metrics",
    "config",
    "sidecar",
    "sandbox",
    "schema",
    "completion",
)
"""The commands in the order of the help. Command NAME is the attribute `NAME` of
`flytui.cli.commands.NAME`."""

HIDDEN = ("tool",)
"""Commands that the help does not list: other names of those in it."""


class LazyGroup(click.Group):
    """Finds each command in the module of its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands; no command is imported."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None for an unknown name."""
        if cmd_name not in (*COMMANDS, *HIDDEN):
            return None
        module = import_module(f"flytui.cli.commands.{cmd_name}")
        command = getattr(module, cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module.__name__}.{cmd_name} is no command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command as click does, and name similar commands for an unknown one."""
        if args and args[0] not in (*COMMANDS, *HIDDEN) and not args[0].startswith("-"):
            from flycore.model.diagnostics import nearest

            near = nearest(args[0], COMMANDS)
            hint = f"Did you mean {' or '.join(near)}?" if near else "flytui --help lists them all."
            ctx.fail(f"There is no command {args[0]}. {hint}")
        return super().resolve_command(ctx, args)
