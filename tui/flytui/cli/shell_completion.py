"""Completes the names of tools and sidecars in a shell.

Here the names come from the files of the registry, and nothing is started, because a key press must not wait.
Beside a running kernel, `direct_reads.py` answers with the names that the kernel knows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from flytui.cli.command_texts import completable

if TYPE_CHECKING:
    from flycore.model.sidecar import Registry

PROGRAM = "flytui"
VARIABLE = "_FLYTUI_COMPLETE"


def tool_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The tools that flytui knows or that an entry offers."""
    from flycore.catalog.builtin import KNOWN

    registry = _registry(context)
    offered = {name for entry in registry.entries for name in entry.tool_names} if registry else set()
    return _matching_names({*KNOWN, *offered}, incomplete)


def sidecar_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The sidecars of the registry."""
    registry = _registry(context)
    return _matching_names({entry.id for entry in registry.entries} if registry else set(), incomplete)


def any_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The tools and the sidecars."""
    tools = tool_names(context, parameter, incomplete)
    return _matching_names({*tools, *sidecar_names(context, parameter, incomplete)}, incomplete)


def _matching_names(names: set[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and completable(name))


def _registry(context: click.Context) -> Registry | None:
    """The registry of the root that the command line names so far; None where it cannot be read."""
    from flycore.model.errors import FlyError
    from flycore.offline.files import read_registry
    from flytui.cli.invocation import Invocation

    try:
        places = Invocation(_option_value(context, "root"), _option_value(context, "workspace")).places()
        return read_registry(places, os.environ)
    except (FlyError, OSError):
        return None


def _option_value(context: click.Context, name: str) -> str | None:
    """The value of the option, in the command before the cursor or in one around it."""
    at: click.Context | None = context
    while at is not None:
        value = at.params.get(name)
        if isinstance(value, tuple) and value:
            value = value[-1]  # the last --root counts
        if isinstance(value, str):
            return value
        at = at.parent
    return None
