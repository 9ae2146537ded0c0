"""What `flytui token --json` prints."""

from __future__ import annotations

from flycore.model.base import Value
from flytui.cli.documents import Document


class TokenShown(Value, frozen=True, kw_only=True):
    """A client that may come in over TCP and HTTP."""

    name: str
    created_at: float
    """Unix time, seconds."""
    last_call_at: float | None = None
    """When it last called a tool, as far as the latest calls of the log tell."""


class TokenDocument(Document, frozen=True, kw_only=True, tag="flytui.token/1"):
    """The tokens, and what this command did."""

    tokens: tuple[TokenShown, ...]
    outcome: str
    """`listed`, `made`, `revoked` or `refused`."""
    token: str = ""
    """The one that was made: it cannot be shown again."""
    message: str = ""
