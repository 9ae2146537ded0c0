"""What is described, against what there is: which capabilities a kit is about, and what agents are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from flycore.model.catalog import CapabilityView
from flycore.model.enums import Effective
from flycore.model.source import Binding, Described, Origin

ALL = "*"
_USABLE = (Effective.AVAILABLE, Effective.DEGRADED)


def bound(described: Iterable[Described], views: Mapping[str, CapabilityView]) -> tuple[Described, ...]:
    """The same with each binding counted against the catalog."""
    return tuple(_bound(item, views) if item.bindings else item for item in described)


def _bound(item: Described, views: Mapping[str, CapabilityView]) -> Described:
    bindings = tuple(_counted(binding, views) for binding in item.bindings)
    return item if bindings == item.bindings else msgspec.structs.replace(item, bindings=bindings)


def _counted(binding: Binding, views: Mapping[str, CapabilityView]) -> Binding:
    named = [view for name, view in views.items() if binds(binding.name, name)]
    usable = sum(view.stability.effective in _USABLE for view in named)
    return Binding(name=binding.name, known=len(named), usable=usable)


def binds(pattern: str, name: str) -> bool:
    """Whether a binding is about that capability."""
    if pattern == ALL:
        return True
    return name.startswith(pattern[:-1]) if pattern.endswith(".*") else name == pattern


def for_agents(described: Described) -> Described:
    """As an agent may see it: no path of the person's home, no command, nothing that could be imported, and
    of what is wrong only the rule."""
    own = described.source is Origin.USER
    reasons = (
        msgspec.structs.replace(
            reason, message=reason.rule, remedy="", excerpt="", position=None if own else reason.position
        )
        for reason in described.reasons
    )
    return msgspec.structs.replace(
        described, path="" if own else described.path, lines=(), offer=None, reasons=tuple(reasons)
    )
