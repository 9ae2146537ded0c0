"""What stands beside a tool but is no part of the catalog: its calls, and the leases that hold for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from flycore.model.approval import UNTIL_LEFT, Ask, Lease
from flycore.model.audit import ToolMetrics
from flycore.model.catalog import Catalog
from flycore.model.enums import LeaseScope
from flytui.console.words import duration

_PROGRAM = ("- /program", "+ /program")


@dataclass(slots=True, eq=False)
class RowAnnotations:
    """Rows look here when they are drawn, so that a lease or a call makes no row anew."""

    now: Callable[[], float] = time.time
    """Unix seconds."""
    metrics: Mapping[str, ToolMetrics] = field(default_factory=dict)
    """By tool."""
    leases: Mapping[str, tuple[Lease, ...]] = field(default_factory=dict)
    """By tool, those that cover it."""

    @property
    def leased_tools(self) -> frozenset[str]:
        """Tools that a lease is held for."""
        return frozenset(self.leases)

    def lease_text(self, tool: str) -> str:
        """`lease 4:10`, the longest; `lease` alone for one that lasts until its caller has gone."""
        ends = [lease.expires_at for lease in self.leases.get(tool, ())]
        if UNTIL_LEFT in ends:
            return "lease"
        left = max(ends, default=0.0) - self.now()
        return f"lease {duration(left)}" if left > 0 else ""


def leases_by_tool(catalog: Catalog, leases: Iterable[Lease]) -> dict[str, tuple[Lease, ...]]:
    """Each lease with the tools it covers: its own, or all of its sidecar's exclusive group."""
    found: dict[str, tuple[Lease, ...]] = {}
    for lease in leases:
        for tool in _covered_tools(catalog, lease):
            found[tool] = (*found.get(tool, ()), lease)
    return found


def drifted_tools(asks: Iterable[Ask]) -> dict[str, tuple[str, ...]]:
    """Tools whose last request said that another program would run than was approved before, with what
    it said. Requests come as the client gives them: waiting ones by age, then ended ones."""
    newest: dict[str, Ask] = {}
    for ask in asks:
        known = newest.get(ask.request.tool)
        if known is None or ask.request.asked_at > known.request.asked_at:
            newest[ask.request.tool] = ask
    return {
        tool: ask.request.difference
        for tool, ask in newest.items()
        if any(line.startswith(_PROGRAM) for line in ask.request.difference)
    }


def _covered_tools(catalog: Catalog, lease: Lease) -> list[str]:
    if lease.scope is not LeaseScope.GROUP:
        return [lease.tool]
    own = catalog.capability(lease.tool)
    sidecar = own.sidecar if own is not None else None
    return [
        view.capability.name
        for view in catalog.capabilities
        if view.sidecar == sidecar and view.capability.exclusive == lease.group
    ] or [lease.tool]
