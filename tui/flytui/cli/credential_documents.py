"""The documents about what lets somebody in: the tokens of clients, declared secrets, and logins at MCP
servers. Only one that makes a token has one in it."""

from __future__ import annotations

from flycore.model.base import Value
from flytui.cli.document_base import Document


class ListedToken(Value, frozen=True, kw_only=True):
    """A client that may connect over TCP and HTTP."""

    name: str
    created_at: float
    """Unix time, seconds."""
    in_url: bool = False
    """Whether it is the token of a URL that a client without headers was given."""
    last_call_at: float | None = None
    """When it last called a tool, according to the latest calls of the log."""


class TokenDocument(Document, frozen=True, kw_only=True, tag="flytui.token/1"):
    """The tokens, and what the command did."""

    tokens: tuple[ListedToken, ...]
    outcome: str
    """`listed`, `made`, `revoked` or `refused`."""
    token: str = ""
    """The new token, or the URL with it, which cannot be shown again."""
    message: str = ""


class ListedSecret(Value, frozen=True, kw_only=True):
    """A secret that entries declare. Its value is in no document."""

    name: str
    found_in: str
    """`environment`, `keyring`, or empty where it is missing."""
    sidecars: tuple[str, ...]
    """The entries that declare it."""


class SecretsDocument(Document, frozen=True, kw_only=True, tag="flytui.secrets/1"):
    """The declared secrets, and what the command did."""

    secrets: tuple[ListedSecret, ...]
    message: str = ""


class ListedUpstream(Value, frozen=True, kw_only=True):
    """An MCP server of the registry, and the person's login there. No token is in any document."""

    id: str
    reached: str
    """The address of a server over HTTP, else the command."""
    state: str
    """The state of the connection, as in the catalog."""
    why: str = ""
    """The first reason why it is not healthy."""
    remedy: str = ""
    login: str
    """`none`, `logged-in`, `ended`, or `own-credentials` where the entry sends a header of its own; empty
    where no login is possible."""
    issuer: str = ""
    """The authorization server at which the person logged in."""
    since: float | None = None
    """When the person logged in, in Unix seconds."""
    kept_in: str = ""
    """Where the tokens are."""
    ended: str = ""
    """Why the login cannot be used any more."""


class UpstreamDocument(Document, frozen=True, kw_only=True, tag="flytui.upstream/1"):
    """The MCP servers of the registry, and what the command did."""

    servers: tuple[ListedUpstream, ...]
    outcome: str
    """`listed`, `logged-in`, `logged-out` or `refused`."""
    message: str = ""
