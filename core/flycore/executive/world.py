"""What the kernel knows at one moment, as one value that is replaced whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flycore.model.catalog import CapabilityView, Catalog
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.policy.evaluate import Policy
from flycore.registry.settings import Settings


@dataclass(frozen=True, slots=True)
class World:
    """Registry, catalog, policy and settings that belong together. A call takes it once per look."""

    registry: Registry
    catalog: Catalog
    policy: Policy
    settings: Settings
    programs: Mapping[str, ResolvedProgram]
    """Sidecar id to its followed command."""
    trusted: frozenset[str]
    index: Mapping[str, CapabilityView] = field(default_factory=dict)
    """Tool name to its view."""
    entries: Mapping[str, SidecarEntry] = field(default_factory=dict)
    """Sidecar id to its entry."""
