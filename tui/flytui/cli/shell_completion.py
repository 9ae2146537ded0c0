"""Completes the names of tools and sidecars in a shell: those that the running kernel knows, and otherwise
those in the files of the registry. Nothing is started, because a key press must not wait."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import click

from flycore.catalog.builtin import KNOWN
from flycore.model.errors import FlyError
from flycore.registry.paths import RootPaths
from flytui.cli.invocation import Invocation
from flytui.cli.kernel_query import ask_running_kernel

PROGRAM = "flytui"
VARIABLE = "_FLYTUI_COMPLETE"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Names that are offered. The completion scripts of shells split and expand what they get, so a name with a
character that has a meaning to a shell is left out."""


def tool_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The tools that flytui knows or that an entry offers."""
    return _matching_names(_known_names(context).tools, incomplete)


def sidecar_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The sidecars."""
    return _matching_names(_known_names(context).sidecars, incomplete)


def any_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The tools and the sidecars."""
    tools = tool_names(context, parameter, incomplete)
    return _matching_names({*tools, *sidecar_names(context, parameter, incomplete)}, incomplete)


def _matching_names(names: set[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name))


class _Names(NamedTuple):
    tools: set[str]
    sidecars: set[str]


def _known_names(context: click.Context) -> _Names:
    """The names of the root that the command line names so far; none if its registry cannot be read."""
    try:
        places = Invocation(_option_value(context, "root"), _option_value(context, "workspace")).places()
        found = _names_of_kernel(places) or _names_of_files(places)
    except (FlyError, OSError):
        return _Names(set(KNOWN), set())
    return _Names({*KNOWN, *found.tools}, found.sidecars)


def _names_of_kernel(places: RootPaths) -> _Names | None:
    """The names in the catalog of the running kernel; None if none runs."""
    catalog = ask_running_kernel(places, lambda client: client.catalog())
    if catalog is None:
        return None
    return _Names(
        {view.capability.name for view in catalog.capabilities}, {view.id for view in catalog.sidecars}
    )


def _names_of_files(places: RootPaths) -> _Names:
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.files import read_registry

    entries = read_registry(places, os.environ).entries
    return _Names({name for entry in entries for name in entry.tool_names}, {entry.id for entry in entries})


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
