"""Catalog values: capabilities, and the views of tools and sidecars with their state."""

from __future__ import annotations

from typing import Literal

from flycore.model.base import Value
from flycore.model.described import Described
from flycore.model.diagnostics import Diagnostic
from flycore.model.enums import Discovery, Effective, Layer, Risk
from flycore.model.json import JsonObject
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import Stability
from flycore.model.tool_exec import ExampleCall
from flycore.model.upstream import McpLists


class RiskRule(Value, frozen=True, kw_only=True):
    """A risk that depends on the input: where `when` (a JSON Schema) accepts the input, `risk` applies."""

    when: JsonObject
    risk: Risk


class Proof(Value, frozen=True, kw_only=True):
    """A field of the output that shows whether the field `of` of the input was acted on.

    `equal`: both are the same. `length`: it is the number of the text's characters. `window`: it is the
    window that the text names. `read` and `written`: the path leads to a file, and both are the same path; a
    path that is written has to be permitted.
    """

    field: str
    of: str
    relation: Literal["equal", "length", "window", "read", "written"]


class Capability(Value, frozen=True, kw_only=True, gc=False):
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
    proofs: tuple[Proof, ...] = ()
    """What a success shows of the act. A contradiction makes it a failure."""
    examples: tuple[JsonObject, ...] = ()
    """Example inputs; each passes the input schema."""
    over: tuple[str, ...] = ()
    """For a plan: the atomic tools that its actions use."""
    tags: tuple[str, ...] = ()
    result_limit: int = 65_536
    """Most bytes of output that an agent should get."""
    upstream: str = ""
    """For a tool of an MCP server: the server's own name of it."""
    request: str = ""
    """For what is no tool of an MCP server: the request that a call makes, `resources/read` or
    `prompts/get`."""
    definition: str = ""
    """For a tool of an MCP server: digest over the server's definition, as it was approved."""
    title: str = ""
    """For a tool of an MCP server: the server's name of it for people."""
    hints: dict[str, bool] = {}
    """For a tool of an MCP server: what the server says of its behaviour, by the names of MCP's
    annotations."""
    version: str = ""
    """The tool's own version, for people."""
    asks_because: str = ""
    """Why a person is asked about every call, whatever policy allows; empty where policy alone decides."""
    example_calls: tuple[ExampleCall, ...] = ()
    """Example calls, with the outputs that are expected of them."""
    dialect: str = ""
    """The dialect in which the offering program reads and answers; empty where it has the form of this
    capability."""
    known: bool = True
    """Whether the kernel's own table describes it. A project can only raise the risk of such a tool."""


class SidecarView(Value, frozen=True, kw_only=True):
    """A sidecar with its snapshot. `entry` is the value in force: the declared one or, where that has changed
    and waits for trust, the last trusted one."""

    id: str
    entry: SidecarEntry
    trusted: bool
    stability: Stability
    changed: tuple[str, ...] = ()
    """Difference from `entry` to the declared value that waits for trust, as lines `- /pointer: before` and
    `+ /pointer: after`; empty where nothing waits."""
    tool_count: int = 0
    """How many tools it offers."""
    available_tools: int = 0
    """How many of them are available."""
    lists: McpLists = McpLists()
    """For an MCP server: its resources, templates and prompts."""

    @property
    def state_text(self) -> str:
        """Its state in one word; where some of its tools are available and others are not, also how many."""
        state = self.stability.effective
        if state is not Effective.DEGRADED or self.available_tools in (0, self.tool_count):
            return state.value
        return f"{state.value} ({self.available_tools} of {self.tool_count})"


class CapabilityView(Value, frozen=True, kw_only=True, gc=False):
    """A capability with the snapshot of the sidecar that offers it, and what is known of this tool alone."""

    capability: Capability
    sidecar: str | None
    """Id of the entry that offers it; None where no entry does."""
    source: str
    """`registry:project`, `registry:user`, `mcp:<id of the entry>`, `builtin`, `plan` or `none`."""
    stability: Stability
    decision: str = ""
    """Policy's decision before an input is known: `allow`, `ask` or `deny`."""
    because: str = ""
    """The rules of that decision, each with its place, `file:line` or `default`; for people."""
    hidden: bool = False
    """Whether agents are not shown it, because it is degraded and the person's settings hide it then."""

    @property
    def offered(self) -> bool:
        """Whether something offers it: an entry that is there, or the kernel itself. No entry offers a plan,
        which stands among the tools that it is made of."""
        offered = bool(self.sidecar) or self.capability.layer is not Layer.ATOMIC
        return offered and self.stability.discovery is not Discovery.MISSING


class Catalog(Value, frozen=True, kw_only=True):
    """All tools and sidecars at one moment. `version` grows with each change."""

    version: int
    app_root: str
    sidecars: tuple[SidecarView, ...] = ()
    capabilities: tuple[CapabilityView, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    described: tuple[Described, ...] = ()
    """Kits, skills, plugins and other clients' servers. They are read and never run."""
    built_at: float = 0.0
    """Unix time in seconds at which the catalog was built. It is not compared."""

    def capability(self, name: str) -> CapabilityView | None:
        """Return the capability of that exact name."""
        return next((view for view in self.capabilities if view.capability.name == name), None)

    def sidecar(self, sidecar: str) -> SidecarView | None:
        """Return the sidecar of that id."""
        return next((view for view in self.sidecars if view.id == sidecar), None)
