"""What a tool is, whoever offers it."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import Layer, Risk
from flycore.model.json import JsonObject


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
