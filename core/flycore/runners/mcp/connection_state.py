"""How a server is, in words: what it calls itself, or why it could not be reached or went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flycore.model.upstream import McpToolList
from flycore.runners.child.spawn import SpawnError
from flycore.runners.mcp.transport import McpTransport
from flycore.runners.output import exit_words
from flysafe.text import strict_text

if TYPE_CHECKING:
    from mcp import Client

ITSELF = "flytui"
"""What a flytui calls itself towards others; it is never taken as an upstream."""
LONGEST_FAULT = 400
LONGEST_NAME = 100


class StartError(Exception):
    """A server cannot be started or is not to be used: a sentence, and what a person can do."""

    def __init__(self, message: str, remedy: str) -> None:
        self.message, self.remedy = message, remedy
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionState:
    """How the server is. Exactly one of `listing` and `fault` says something."""

    listing: McpToolList | None = None
    server: str = ""
    """What it calls itself, and the version of the protocol."""
    took_ms: int = 0
    fault: str = ""
    remedy: str = ""
    stderr_tail: str = ""


def server_label(client: Client) -> str:
    """What the server calls itself. Raises StartError where it is a flytui."""
    about = client.server_info
    name = about.name if about is not None else "a server without a name"
    if name.casefold() == ITSELF:
        raise StartError(
            "the server is flytui itself, which is never taken as an MCP server of its own",
            "remove the entry: agents reach flytui's tools already",
        )
    version = about.version if about is not None else ""
    words = f"{name} {version}".strip()[:LONGEST_NAME]
    return f"{strict_text(words)}, MCP {client.protocol_version}"


def connection_loss(
    link: McpTransport | None, fault: BaseException | None, connect_s: float
) -> ConnectionState:
    """Why there is no connection. What `link` noted says more than what the SDK made of it."""
    leaf = _leaf(fault)
    if isinstance(leaf, StartError):
        return ConnectionState(fault=leaf.message, remedy=leaf.remedy)
    if isinstance(leaf, SpawnError):
        return ConnectionState(fault=leaf.failure.message, remedy=leaf.failure.hint)
    remedy = "flytui inspect shows what it wrote; it is tried again by itself"
    if link is None:
        return ConnectionState(fault=_words(leaf), remedy=remedy)
    how = link.fault if link.fault != "was left" else ""
    if isinstance(leaf, TimeoutError):
        how = f"did not answer within {connect_s:g} s"
    if link.exit_code is not None and (how == "has left" or how.startswith("closed")):
        how = exit_words(link.exit_code)
    said = how or (_words(leaf) if leaf is not None else "went away")
    return ConnectionState(
        fault=f"the server {said}"[:LONGEST_FAULT], remedy=remedy, stderr_tail=link.stderr_tail
    )


def _leaf(fault: BaseException | None) -> BaseException | None:
    """The first single exception of a group."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault


def _words(fault: BaseException | None) -> str:
    text = strict_text(str(fault).split("\n", 1)[0][:LONGEST_FAULT])
    return f"answered something that cannot be used ({text or type(fault).__name__})"
