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
    restarts_on_cancel: bool
    """Whether a server that does not end a cancelled call is ended itself, as its entry says."""

    login_needed: str
    """Why a person has to log in at the server, as a sentence without its subject; empty where that is not
    the reason of the end."""
    unconfined: bool
    """Whether the server did not run, because it could not be confined as it was to be."""

    def transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        """The streams to and from the server, while the block runs. Whatever it started has ended when it
        closes."""
        ...

    def abort(self, why: str) -> None:
        """End the use of the connection, for this reason."""
        ...

    async def wait_until_cancelled(self, slot: int) -> bool:
        """Whether the server has ended the cancelled call of this slot, within its grace."""
        ...

    def begin_call(self) -> int:
        """Begin one call and return its slot. Where no other call runs, stderr belongs to it from here on."""
        ...

    def end_call(self, slot: int) -> None:
        """End the call of this slot. An answer that comes later is dropped."""
        ...

    def request_meta(self, slot: int) -> dict[str, int]:
        """What the request of the call carries as `_meta`, for this transport alone."""
        ...

    @property
    def left_alone(self) -> int:
        """How many cancelled calls the server still works on."""
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
    def process_limit(self) -> int:
        """The limit of processes that the server has exceeded; 0 where it has not."""
        ...

    @property
    def memory_limit(self) -> int:
        """The limit of memory that its processes together have reached; 0 where they have not."""
        ...

    @property
    def survivors(self) -> int:
        """How many processes could not be ended."""
        ...
