"""A click group that imports a command only when it is used, so that flytui starts fast."""

from __future__ import annotations

from importlib import import_module

import click

from flycore.model.diagnostics import nearest

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Everyday", ("demo", "init", "catalog", "call", "activity", "undo", "status", "help")),
    ("Decide", ("approvals", "trust", "grants", "policy", "panic")),
    ("Look", ("why", "inspect", "doctor", "audit", "metrics", "sandbox", "config")),
    (
        "Set up",
        (
            *(
                "connect",
                "tools",
                "packages",
                "upstream",
                "enable",
                "disable",
                "secrets",
                "bundle",
                "migrate",
            ),
            *("lint", "sidecar", "completion"),
        ),
    ),
    ("For programs", ("mcp", "hook", "serve", "preflight", "token", "schema")),
)
"""The commands in the groups and the order of the help. Command NAME is the attribute `NAME` of
`flytui.cli.commands.NAME`."""
COMMANDS = tuple(name for _, names in GROUPS for name in names)
"""The commands in the order of the help."""
WHOLE_SUMMARY = 10_000
"""Characters of a summary that the help shows: all of it, wrapped below itself."""

HIDDEN = ("tool",)
"""Commands that the help does not list: other names of those in it."""


class SummaryGroup(click.Group):
    """A group whose help shows the whole summary of each command."""

    def help_sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The headings of the help, each with the names of its commands."""
        return (("Commands", tuple(self.list_commands(click.get_current_context()))),)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below their headings, each with its whole summary."""
        width = max(map(len, self.list_commands(ctx)), default=0)
        for title, names in self.help_sections():
            found = ((name, self.get_command(ctx, name)) for name in names)
            rows = [
                (name.ljust(width), command.get_short_help_str(WHOLE_SUMMARY))
                for name, command in found
                if command is not None and not command.hidden
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


class LazyGroup(SummaryGroup):
    """Finds each command in the module of its name."""

    def help_sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The groups of commands."""
        return GROUPS

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
            near = nearest(args[0], COMMANDS)
            hint = f"Did you mean {' or '.join(near)}?" if near else "flytui --help lists them all."
            ctx.fail(f"There is no command {args[0]}. {hint}")
        return super().resolve_command(ctx, args)
