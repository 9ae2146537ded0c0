"""Values for the tools that an MCP server or an executable offers. Everything in them is what the program
itself says."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import Envelope
from flycore.model.json import Json, JsonObject, digest

READ_RESOURCE, GET_PROMPT, COMPLETE = "resources/read", "prompts/get", "completion/complete"


class ToolDefinition(Value, frozen=True, kw_only=True):
    """A tool as the server describes it. Definitions with equal digests are equal."""

    name: str
    """The server's own name."""
    title: str = ""
    """The server's name of the tool for people."""
    description: str = ""
    input_schema: JsonObject
    output_schema: JsonObject = {}
    destructive: bool = False
    """Whether the server says that the tool may destroy something. Its word that a tool only reads is not
    used."""
    hints: dict[str, bool] = {}
    """What the server says of the tool's behaviour, by the names of MCP's annotations, such as
    `readOnlyHint`. Agents get it; the kernel uses it for nothing."""
    request: str = ""
    """For what is no tool: the request of MCP that a call makes, READ_RESOURCE, GET_PROMPT or COMPLETE."""
    envelope: Envelope | None = None
    """For a tool of an executable: how it answers. None for a tool of an MCP server."""
    version: str = ""
    tags: tuple[str, ...] = ()
    timeout_ms: int = 0
    """The time limit that an executable names for the tool; 0 where it names none."""

    @property
    def shown(self) -> JsonObject:
        """The whole definition without the name, for a difference."""
        shown: JsonObject = {
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "destructive": self.destructive,
        }
        shown |= {"title": self.title} if self.title else {}
        shown |= {"hints": dict(self.hints)} if self.hints else {}
        shown |= {"request": self.request} if self.request else {}
        if self.envelope is None:
            return shown
        shown |= {"answers": self.envelope.value, "version": self.version, "tags": list(self.tags)}
        return {**shown, "timeoutMs": self.timeout_ms} if self.timeout_ms else shown

    def digest(self) -> str:
        """Return the SHA-256 over the name and the definition, 64 hex digits."""
        return digest([self.name, self.shown])


class UnreadableTool(Value, frozen=True, kw_only=True):
    """A tool that cannot be offered. `why` is a sentence without its subject."""

    name: str
    why: str


class McpLists(Value, frozen=True, kw_only=True):
    """What a server lists beside its tools, each as it sent it."""

    resources: tuple[JsonObject, ...] = ()
    templates: tuple[JsonObject, ...] = ()
    prompts: tuple[JsonObject, ...] = ()
    more: str = ""
    """Why a list is incomplete; empty where all are whole."""


class McpToolList(Value, frozen=True, kw_only=True):
    """The tools that a server listed."""

    tools: tuple[ToolDefinition, ...] = ()
    refused: tuple[UnreadableTool, ...] = ()
    more: str = ""
    """Why the list was not read to its end; empty where it was."""
    lists: McpLists = McpLists()


class McpToolOffer(Value, frozen=True, kw_only=True):
    """Which tools of a listing may be used."""

    accepted: tuple[ToolDefinition, ...] = ()
    """The trusted definitions, as they were when a person trusted them."""
    waiting: dict[str, tuple[str, ...]] = {}
    """The tools that wait for a person, by the server's name: the difference from the trusted definition, as
    lines `- /pointer: before` and `+ /pointer: after`."""
    new: tuple[str, ...] = ()
    """The names in `waiting` that were never trusted in any form."""
    gone: tuple[str, ...] = ()
    """The names in `accepted` that the server no longer offers."""
    refused: tuple[UnreadableTool, ...] = ()
    lists: McpLists = McpLists()
    """What the server lists now of what it may be asked for."""


def listing_digest(tools: tuple[ToolDefinition, ...]) -> str:
    """Return one digest over a set of definitions, whatever their order."""
    found: list[Json] = [*sorted(tool.digest() for tool in tools)]
    return digest(found)
