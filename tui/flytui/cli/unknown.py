"""A name that nothing has: what was meant instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flytui.cli.output import print_error

if TYPE_CHECKING:
    from flycore.model.catalog import Catalog

EXIT_UNKNOWN = 3


def nearest_names(catalog: Catalog, name: str, *, sidecars: bool) -> tuple[str, ...]:
    """Names of tools (and sidecars) close to that one, the nearest first."""
    from flycore.model.suggest import nearest

    names = [view.capability.name for view in catalog.capabilities]
    names += [view.id for view in catalog.sidecars] if sidecars else []
    return nearest(name, names)


def print_not_found(name: str, near: tuple[str, ...], *, sidecars: bool) -> int:
    """Say that there is no such tool (or sidecar), with the nearest names; the exit code for it."""
    what = "tool or sidecar" if sidecars else "tool"
    hint = f"did you mean {' or '.join(near)}?" if near else "flytui catalog lists every tool"
    print_error(f"no {what} is named {name}: {hint}")
    return EXIT_UNKNOWN
