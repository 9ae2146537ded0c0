"""The catalog: one value that says what there is, who offers it and how it is."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.capability import Capability
from flycore.model.diagnostics import Diagnostic
from flycore.model.sidecar import SidecarEntry
from flycore.model.source import Described
from flycore.model.stability import Stability


class SidecarView(Value, frozen=True, kw_only=True):
    """A sidecar with its snapshot. `entry` is the value in force: what the registry declares, or where that
    changed and waits for trust, the value trusted last."""

    id: str
    entry: SidecarEntry
    trusted: bool
    stability: Stability
    changed: tuple[str, ...] = ()
    """From `entry` to what the registry declares and nobody has trusted yet, as lines `- /pointer: before`
    and `+ /pointer: after`; empty where nothing waits."""


class CapabilityView(Value, frozen=True, kw_only=True):
    """A capability with the snapshot of whoever offers it, narrowed by its own probe."""

    capability: Capability
    sidecar: str | None
    """Id of the entry that offers it; None when nothing does."""
    source: str
    """`registry:project`, `registry:user`, `mcp:<id of the entry>`, `builtin`, `plan` or `none`."""
    stability: Stability
    decision: str = ""
    """What policy says of it before an input is known: `allow`, `ask` or `deny`."""
    because: str = ""
    """The rules it says so by, each with its place, `file:line` or `default`; for people."""


class Catalog(Value, frozen=True, kw_only=True):
    """All that is known at one moment. `version` grows with each difference."""

    version: int
    app_root: str
    sidecars: tuple[SidecarView, ...] = ()
    capabilities: tuple[CapabilityView, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    described: tuple[Described, ...] = ()
    """Kits, skills, plugins and other clients' servers: read, never run."""
    built_at: float = 0.0
    """Unix time of the looking, seconds. Evidence: it takes no part in comparing."""

    def capability(self, name: str) -> CapabilityView | None:
        """The capability of that exact name."""
        return next((view for view in self.capabilities if view.capability.name == name), None)

    def sidecar(self, sidecar: str) -> SidecarView | None:
        """The sidecar of that id."""
        return next((view for view in self.sidecars if view.id == sidecar), None)
