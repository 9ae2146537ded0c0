"""Says on standard error which root a program took that did not name one, and asks the root around it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flycore.client.outer_roots import ask_outer_root, open_outer_root
from flycore.model.enums import RootPermission
from flycore.registry.paths import RootPaths
from flytui.cli.invocation import Invocation
from flytui.cli.output import print_error

EXIT_REFUSED = 4
"""The exit code of `flytui call` for a call that was denied."""


class RootRefused(click.ClickException):
    """A person refused programs that work on this root without naming it."""

    exit_code = EXIT_REFUSED


async def check_root(invocation: Invocation, places: RootPaths) -> None:
    """Say which root was taken where it is not the current folder, or lies within one that is open. Asks the
    person there once whether programs may take it. Does nothing where the root was named.

    Raises RootRefused where that person refused it."""
    if invocation.root is not None or os.environ.get("FLYTUI_ROOT"):
        return
    root, outer = places.app_root, open_outer_root(places, os.environ)
    permission = RootPermission.ALLOWED if outer is None else await ask_outer_root(outer, root)
    if outer is not None and permission is RootPermission.REFUSED:
        raise RootRefused(
            f"a person refused programs that work on the root {root} without naming it, because it lies "
            f"within {outer.app_root}, which is open: name the root that you mean, as --root {outer.app_root}"
        )
    if outer is not None and permission is RootPermission.UNDECIDED:
        print_error(
            f"warning: this works on the root {root}, which lies within {outer.app_root}. The console that "
            f"is open there does not see it: --root {outer.app_root} goes there"
        )
    elif not _is_current_folder(root):
        print_error(f"root: {root}")


def _is_current_folder(root: Path) -> bool:
    return root == Path(os.path.realpath(Path.cwd()))
