"""The interface of a transport: one connection to an MCP server, over a child process or HTTP."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

import anyio

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


class McpTransport(Protocol):
    """One connection, which is used once. After its end `fault` says why it ended, as a sentence without its
    subject."""

    fault: str
    ended: anyio.Event
    """Set when no further message comes from the server."""
    closed: anyio.Event
    """Set when the connection is closed and nothing that was started for it is left."""
    in_doubt: bool
    """Whether a request failed on its way, so that it is not known whether the server still answers."""
    one_call_at_a_time: bool
    """Whether the connection carries one call at a time, because only its end is sure to end a call."""

    def transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        """The streams to and from the server, while the block runs. Whatever it started has ended when it
        closes."""
        ...

    def abort(self, why: str) -> None:
        """End the use of the connection, for this reason."""
        ...

    async def wait_until_idle(self) -> bool:
        """Whether the server has ended the call that was cancelled last, within its grace."""
        ...

    def begin_call(self) -> None:
        """Begin one call: from here on stderr belongs to it."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The last part of what the server wrote to stderr."""
        ...

    @property
    def exit_code(self) -> int | None:
        """The exit code of the server's process, negative for a signal; None where it runs or there is
        none."""
        ...

    @property
    def survivors(self) -> int:
        """How many processes could not be ended."""
        ...
