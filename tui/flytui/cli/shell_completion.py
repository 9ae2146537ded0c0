"""What a shell may complete: names of tools and sidecars as the registry files say, read in place.

No kernel is asked and nothing is started: a key press must not wait. Completion scripts of shells split and
expand what they are given, so only names without a character that means something to one are offered.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flycore.model.sidecar import Registry

PROGRAM = "flytui"
VARIABLE = "_FLYTUI_COMPLETE"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


def tool_names(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Tools that are known or that an entry offers."""
    from flycore.catalog.builtin import KNOWN

    registry = _registry(context)
    offered = {name for entry in registry.entries for name in entry.tool_names} if registry else set()
    return _matching_names({*KNOWN, *offered}, begun)


def sidecar_names(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Sidecars."""
    registry = _registry(context)
    return _matching_names({entry.id for entry in registry.entries} if registry else set(), begun)


def any_names(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Tools and sidecars."""
    tools = tool_names(context, parameter, begun)
    return _matching_names({*tools, *sidecar_names(context, parameter, begun)}, begun)


def _matching_names(names: set[str], begun: str) -> list[str]:
    return sorted(name for name in names if name.startswith(begun) and _PLAIN.fullmatch(name))


def _registry(context: click.Context) -> Registry | None:
    """The registry of the root that the line names so far; None where it cannot be read."""
    from flycore.model.errors import FlyError
    from flycore.offline.files import read_registry
    from flytui.cli.invocation import Invocation

    try:
        places = Invocation(_option_value(context, "root"), _option_value(context, "workspace")).places()
        return read_registry(places, os.environ)
    except (FlyError, OSError):
        return None


def _option_value(context: click.Context, name: str) -> str | None:
    """The option of that name, the one nearest to the cursor."""
    at: click.Context | None = context
    while at is not None:
        value = at.params.get(name)
        if isinstance(value, str):
            return value
        at = at.parent
    return None
