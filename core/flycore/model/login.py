"""A login at an MCP server over HTTP as it is kept, what keeps it, and its failure."""

from __future__ import annotations

from typing import Protocol

from flycore.model.base import Value
from flycore.model.json import JsonObject


class LoginSecret(Value, frozen=True, kw_only=True):
    """The secret part of a login: JSON objects of OAuth, as the MCP SDK writes them."""

    tokens: JsonObject
    client: JsonObject
    """The registration of flytui at the authorization server, which may have a secret of its own."""
    metadata: JsonObject = {}
    """The authorization server's description of itself; empty where it has none."""
    resource: JsonObject = {}
    """The server's description of itself as a resource; empty where it has none."""

    def __repr__(self) -> str:
        """Return no value: what is printed of a login may reach a log."""
        return "LoginSecret(…)"

    def values(self) -> dict[str, str]:
        """Return the texts that no screen and no log may have, by their names."""
        named = {**self.tokens, "client_secret": self.client.get("client_secret")}
        return {
            name: value
            for name in ("access_token", "refresh_token", "id_token", "client_secret")
            if isinstance(value := named.get(name), str) and value
        }


class Login(Value, frozen=True, kw_only=True):
    """A person's login at one server. The tokens are for that address alone."""

    server: str
    """The address of the server, exactly as the entry has it."""
    issuer: str
    """The authorization server."""
    at: float
    """When the person logged in, in Unix seconds."""
    expires_at: float | None = None
    """When the access token expires, in Unix seconds; None where that is not known."""
    scope: str = ""
    ended: str = ""
    """Why the tokens cannot be used any more, in a few words; empty while they can."""
    secret: LoginSecret | None = None
    """None where it is in the system's keyring, or was removed when the login ended."""


class LoginFailed(Exception):
    """A person could not be logged in; the message says why, without a token or a code."""


class LoginKeeper(Protocol):
    """Keeps the login of one entry at its address. All functions but `stamp` block. They raise OSError."""

    def load(self) -> Login | None:
        """Return the login with its tokens; None where there is none."""
        ...

    def keep(self, login: Login) -> None:
        """Keep the login in place of an earlier one."""
        ...

    def end(self, login: Login, why: str) -> None:
        """Forget the tokens of that login, which the server no longer takes."""
        ...

    def stamp(self) -> tuple[int, ...]:
        """Return what changes whenever the login may have changed."""
        ...
