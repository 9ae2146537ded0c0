"""The tokens of clients that may connect over TCP and HTTP: read and changed while no kernel runs."""

from __future__ import annotations

from typing import NamedTuple

from flycore.audit.events import TOKEN_CHANGED, token_changed
from flycore.model.approval import Outcome
from flycore.model.errors import TokenRefused
from flycore.offline.root import HeldRoot
from flycore.registry.paths import RootPaths
from flycore.server.admission import URL_KEY
from flycore.server.tokens import MADE_FOR_URL, TokenStore, digest_of, new_token

BY = "flytui token, while no kernel ran"


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


def add_token(root: HeldRoot, name: str, digest: str, *, in_url: bool = False) -> Outcome:
    """Admit the client of that name. Raises AuditUnwritable or OSError; then it is not admitted."""
    change = MADE_FOR_URL if in_url else "made"
    try:
        read_tokens(root.places).add(name, digest, lambda: _record(root, name, change), in_url=in_url)
    except TokenRefused as refused:
        return Outcome(accepted=False, why_not=str(refused))
    return Outcome(accepted=True)


def revoke_token(root: HeldRoot, name: str) -> Outcome:
    """Stop admitting the client of that name. Raises AuditUnwritable or OSError; then it stays admitted."""
    try:
        existed = read_tokens(root.places).revoke(name, lambda: _record(root, name, "revoked"))
    except TokenRefused as refused:
        return Outcome(accepted=False, why_not=str(refused))
    return Outcome(accepted=existed, why_not="" if existed else "the token was already gone")


def _record(root: HeldRoot, name: str, change: str) -> None:
    root.record(TOKEN_CHANGED, token_changed(name, change, by=BY))
