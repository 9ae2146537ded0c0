"""What a session needs of the way to its server, whichever it is."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

import anyio

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


class McpTransport(Protocol):
    """One connection, made once. `fault` says, once it has ended, why; a sentence without its subject."""

    fault: str
    ended: anyio.Event
    """Nothing more comes from the server."""
    closed: anyio.Event
    """It is over, and nothing that was started for it is left."""
    in_doubt: bool
    """A request of it has failed on the way: whether the server is still there is to be found out."""
    stays_alone: bool
    """Whether it carries one call at a time, because only its end ends a call for certain."""

    def transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        """The streams, for as long as the block is open. Whatever it starts has ended when it closes."""
        ...

    def abort(self, why: str) -> None:
        """Use it no more."""
        ...

    async def wait_until_idle(self) -> bool:
        """Whether the call that was cancelled last came to an end on the server's side, within its grace."""
        ...

    def begin_call(self) -> None:
        """What is told of stderr from here on belongs to one call."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The end of what it wrote to stderr."""
        ...

    @property
    def exit_code(self) -> int | None:
        """How its process left, negative for a signal; None where there is none or it runs."""
        ...

    @property
    def survivors(self) -> int:
        """Processes that could not be ended."""
        ...
