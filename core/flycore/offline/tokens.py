"""The tokens of clients that may come in over TCP and HTTP, read and changed while no kernel runs."""

from __future__ import annotations

from typing import NamedTuple

from flycore.audit.events import TOKEN_CHANGED, token_changed
from flycore.model.approval import Outcome
from flycore.model.errors import TokenRefused
from flycore.offline.root import HeldRoot
from flycore.registry.paths import RootPaths
from flycore.server.tokens import TokenStore, digest_of, new_token

BY = "flytui token, while no kernel ran"


class NewToken(NamedTuple):
    """A token for the client, and the digest that is all a root keeps of it."""

    token: str
    digest: str


def make_token() -> NewToken:
    """A new token, which nothing admits yet."""
    token = new_token()
    return NewToken(token, digest_of(token))


def read_tokens(places: RootPaths) -> TokenStore:
    """The tokens of the root. Never raises for what the file holds."""
    return TokenStore.load(places.state_dir)


def add_token(root: HeldRoot, name: str, digest: str) -> Outcome:
    """Let the client of that name in. Raises AuditUnwritable and OSError, and then it stays out."""
    try:
        read_tokens(root.places).add(name, digest, lambda: _record(root, name, "made"))
    except TokenRefused as refused:
        return Outcome(accepted=False, why_not=str(refused))
    return Outcome(accepted=True)


def revoke_token(root: HeldRoot, name: str) -> Outcome:
    """Let the client of that name in no longer. Raises AuditUnwritable and OSError; then it may come in."""
    try:
        there = read_tokens(root.places).revoke(name, lambda: _record(root, name, "revoked"))
    except TokenRefused as refused:
        return Outcome(accepted=False, why_not=str(refused))
    return Outcome(accepted=there, why_not="" if there else "it was gone already")


def _record(root: HeldRoot, name: str, change: str) -> None:
    root.record(TOKEN_CHANGED, token_changed(name, change, by=BY))
