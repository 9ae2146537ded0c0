"""The tokens of clients that may connect over TCP and HTTP, as a command makes and lists them."""

from __future__ import annotations

from typing import NamedTuple

from flycore.registry.paths import RootPaths
from flycore.server.admission import URL_KEY
from flycore.server.tokens import TokenStore, digest_of, new_token


class NewToken(NamedTuple):
    """A token for a client, and its digest, which is all that the root stores."""

    token: str
    digest: str


def make_token() -> NewToken:
    """Make a token that is not yet valid anywhere."""
    token = new_token()
    return NewToken(token, digest_of(token))


def token_url(address: str, token: str) -> str:
    """Return the URL by which a client without headers connects to that WebSocket address."""
    return f"{address}?{URL_KEY}={token}"


def read_tokens(places: RootPaths) -> TokenStore:
    """Read the tokens of the root. A damaged file raises no error here."""
    return TokenStore.load(places.state_dir)
