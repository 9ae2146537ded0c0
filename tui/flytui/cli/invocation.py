"""The options that every command takes, before or after its name, as one value."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import click
import msgspec

from flycore.registry.paths import RootPaths, find_paths
from flytui.supervisor.console_arguments import distinct_roots

P = ParamSpec("P")


class Invocation(msgspec.Struct, frozen=True):
    """The values of `--root`, `--workspace`, `--json` and `--plain`."""

    root: str | None = None
    workspace: str | None = None
    as_json: bool = False
    plain: bool = False
    roots: tuple[str, ...] = ()
    """All values of `--root`, each folder once: the console opens each of them. `root` is the last one."""

    def narrowed(
        self, roots: tuple[str, ...], workspace: str | None, as_json: bool, plain: bool
    ) -> Invocation:
        """This invocation with the options after the command's name, which win over those before it."""
        return Invocation(
            roots[-1] if roots else self.root,
            workspace if workspace is not None else self.workspace,
            as_json or self.as_json,
            plain or self.plain,
            distinct_roots(roots) if roots else self.roots,
        )

    def places(self) -> RootPaths:
        """The paths of the root that the invocation works on. Nothing is created."""
        return find_paths(self.root, self.workspace, os.environ, Path.cwd())


def common(body: Callable[Concatenate[Invocation, P], int]) -> Callable[..., int]:
    """Give a command the common options. Its body gets them as an Invocation in its first argument."""

    @click.option(
        "--root",
        type=click.Path(exists=True, file_okay=False),
        multiple=True,
        help="App root to work on; the console takes several.",
    )
    @click.option("--workspace", type=click.Path(exists=True, file_okay=False), help="Workspace folder.")
    @click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
    @click.option("--plain", is_flag=True, help="No colour, no boxes.")
    @functools.wraps(body)
    def command(
        *args: Any, root: tuple[str, ...], workspace: str | None, as_json: bool, plain: bool, **kwargs: Any
    ) -> int:
        context = click.get_current_context()
        earlier = context.find_object(Invocation) or Invocation()
        context.obj = earlier.narrowed(root, workspace, as_json, plain)
        is_console = context.parent is None and context.invoked_subcommand is None
        if len(context.obj.roots) > 1 and not is_console:
            raise click.UsageError("only the console opens several roots: name one --root for a command")
        return body(context.obj, *args, **kwargs)

    return command
