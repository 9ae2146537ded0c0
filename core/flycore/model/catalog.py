"""What a tool is, whoever offers it."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.described import Described
from flycore.model.diagnostics import Diagnostic
from flycore.model.enums import Layer, Risk
from flycore.model.json import JsonObject
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import Stability


class RiskRule(Value, frozen=True, kw_only=True):
    """Risk that depends on the input: where `when` (a JSON Schema) accepts it, `risk` holds."""

    when: JsonObject
    risk: Risk


class Capability(Value, frozen=True, kw_only=True):
    """A tool's descriptor. Known ones come from the kernel's own data, others from a registry."""

    name: str
    layer: Layer
    family: str
    """The part of the name before the first dot."""
    sidecar: str | None
    """Id of the sidecar that usually offers it; None for builtin and high-level tools."""
    description: str
    """For agents: what it does, when to use it, what comes back."""
    summary: str
    """For people: one line."""
    effect: str
    """Template of the card's effect sentence; `{name}` stands for an input field."""
    effects: dict[str, str] = {}
    """Templates by the value of the input's `action`, each going before `effect`."""
    risk: Risk
    approval_class: tuple[str, ...]
    input_schema: JsonObject
    output_schema: JsonObject
    read_only: bool = False
    exclusive: str | None = None
    """Name of the group of which only one call runs at a time."""
    concurrency_safe: bool = False
    risk_when: tuple[RiskRule, ...] = ()
    examples: tuple[JsonObject, ...] = ()
    """Example inputs; each passes the input schema."""
    over: tuple[str, ...] = ()
    """Of a plan: the atomic tools that its actions are made of."""
    tags: tuple[str, ...] = ()
    result_limit: int = 65_536
    """Most bytes of output an agent is meant to be handed."""
    upstream: str = ""
    """Of an MCP server's tool: the server's own name of it."""
    definition: str = ""
    """Of an MCP server's tool: digest over its description by the server, as it was approved."""
    known: bool = True
    """Whether the kernel's own table describes it. What a project says of risk can only raise it."""


# The catalog: one value that says what there is, who offers it and how it is.


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
