"""What the commands about the kernel's doors print with `--json`."""

from __future__ import annotations

from flytui.cli.documents import Document


class ServeDocument(Document, frozen=True, kw_only=True, tag="flytui.serve/1"):
    """A kernel that has begun to listen; printed once, before it serves."""

    app_root: str
    pid: int
    socket: str
    listening: tuple[str, ...] = ()
    """Addresses of the doors on loopback."""
