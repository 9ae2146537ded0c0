"""What an MCP server offers, and how it is: plain values, everything in them on the server's own word."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.json import Json, JsonObject, digest


class ToolDefinition(Value, frozen=True, kw_only=True):
    """A tool as the server describes it. Equal digests, equal descriptions."""

    name: str
    """The server's own name."""
    description: str = ""
    input_schema: JsonObject
    output_schema: JsonObject = {}
    destructive: bool = False
    """Whether it says of itself that it may destroy something; that it only reads is not believed."""

    @property
    def shown(self) -> JsonObject:
        """Everything about it, for a difference."""
        return {
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "destructive": self.destructive,
        }

    def digest(self) -> str:
        """SHA-256 over name and description, 64 hex digits."""
        return digest([self.name, self.shown])


class UnreadableTool(Value, frozen=True, kw_only=True):
    """A tool that cannot be offered, and why, as a sentence without its subject."""

    name: str
    why: str


class McpToolList(Value, frozen=True, kw_only=True):
    """What a server said it offers."""

    tools: tuple[ToolDefinition, ...] = ()
    refused: tuple[UnreadableTool, ...] = ()
    more: str = ""
    """Why not all of it was read; empty where it was."""


class McpToolOffer(Value, frozen=True, kw_only=True):
    """What of a listing may be used. Every tool is in one of them."""

    accepted: tuple[ToolDefinition, ...] = ()
    """Those a person's trust covers, as they were when it was given."""
    waiting: dict[str, tuple[str, ...]] = {}
    """Of the server's names, those that wait for a person: the difference to what was trusted, as lines
    `- /pointer: before` and `+ /pointer: after`."""
    new: tuple[str, ...] = ()
    """Those of `waiting` that were never trusted in any form."""
    gone: tuple[str, ...] = ()
    """Those of `accepted` that the server offers no longer."""
    refused: tuple[UnreadableTool, ...] = ()


def listing_digest(tools: tuple[ToolDefinition, ...]) -> str:
    """One digest over a set of definitions, whatever their order."""
    found: list[Json] = [*sorted(tool.digest() for tool in tools)]
    return digest(found)
