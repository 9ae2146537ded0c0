"""The state of the connection to an MCP server: the server's name and tools, or why there is no
connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from flycore.model.upstream import McpToolList
from flycore.runners.child.spawn import NOT_CONFINED, SpawnError, not_confined
from flycore.runners.mcp.transport import McpTransport
from flycore.runners.output import exit_words
from flysafe.text import strict_text

if TYPE_CHECKING:
    from mcp import Client

ITSELF = "flytui"
"""The name of flytui as an MCP server and client. A server of this name is refused."""
LONGEST_FAULT = 400
LONGEST_NAME = 100


class StartError(Exception):
    """A server cannot be started, or must not be used; with what a person can do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        self.message, self.remedy = message, remedy
        super().__init__(message)


class ConnectionState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a connection. Exactly one of `listing` and `fault` is set."""

    listing: McpToolList | None = None
    server: str = ""
    """The server's name for itself, with the version of the protocol."""
    took_ms: int = 0
    fault: str = ""
    remedy: str = ""
    stderr_tail: str = ""
    unconfined: bool = False
    """Whether the server did not run, because it could not be confined as it was to be."""
    login_needed: bool = False
    """Whether a person has to log in at the server first."""


def server_label(client: Client) -> str:
    """The server's name for itself, with the version of the protocol. Raises StartError where it is
    flytui."""
    about = client.server_info
    name = about.name if about is not None else "a server without a name"
    if name.casefold() == ITSELF:
        raise StartError(
            "the server is flytui itself, which cannot be its own MCP server",
            "remove the entry: agents reach flytui's tools without it",
        )
    version = about.version if about is not None else ""
    words = f"{name} {version}".strip()[:LONGEST_NAME]
    return f"{strict_text(words)}, MCP {client.protocol_version}"


def connection_loss(
    link: McpTransport | None, fault: BaseException | None, connect_s: float
) -> ConnectionState:
    """The state after a connection was lost or could not be made, with the reason."""
    # The transport knows the cause; the SDK's exception is often only its consequence, such as a closed
    # stream.
    leaf = _leaf(fault)
    if isinstance(leaf, StartError):
        return ConnectionState(fault=leaf.message, remedy=leaf.remedy)
    if isinstance(leaf, SpawnError):
        unconfined = leaf.failure.fault == NOT_CONFINED
        return ConnectionState(fault=leaf.failure.message, remedy=leaf.failure.hint, unconfined=unconfined)
    remedy = "flytui inspect shows what the server wrote; flytui connects to it again by itself"
    if link is None:
        return ConnectionState(fault=_words(leaf), remedy=remedy)
    if link.unconfined:
        failure = not_confined((link.stderr_tail.strip().splitlines() or ["it was ended before it ran"])[-1])
        return ConnectionState(fault=failure.message, remedy=failure.hint, unconfined=True)
    if link.login_needed:
        return ConnectionState(
            fault=f"the server {link.login_needed}"[:LONGEST_FAULT],
            remedy="log in at the server",
            login_needed=True,
        )
    how = link.fault if link.fault != "was left" else ""
    if isinstance(leaf, TimeoutError):
        how = f"did not answer within {connect_s:g} s"
    if link.exit_code is not None and (how == "has left" or how.startswith("closed")):
        how = exit_words(link.exit_code)
    reason = how or (_words(leaf) if leaf is not None else "went away")
    return ConnectionState(
        fault=f"the server {reason}"[:LONGEST_FAULT], remedy=remedy, stderr_tail=link.stderr_tail
    )


def _leaf(fault: BaseException | None) -> BaseException | None:
    """The first single exception of a group."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault


def _words(fault: BaseException | None) -> str:
    text = strict_text(str(fault).split("\n", 1)[0][:LONGEST_FAULT])
    return f"answered something that cannot be used ({text or type(fault).__name__})"
