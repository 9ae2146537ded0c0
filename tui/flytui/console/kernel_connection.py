"""Values about the console's connection with its kernel, and about consoles that ask to pair with this one.

The connection is one value of four kinds:

    opening ──▶ open ◀──▶ lost
       │
       └─▶ failed     only where the console has other roots, too

Nothing here does input or output but the `PairingConnection` and the clients that are handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from flycore.rpc.methods import Approver, Client

CODE_LETTERS = 8
_GROUP = 4
SEARCH_S = 30.0
"""Seconds for which a kernel that went away is looked for."""
ROLE_NAMES = {"headless": "flytui serve", "console": "the console"}


class PairingConnection(Protocol):
    """The pairing of one connection, which turns a viewer into a console that decides. Its methods raise
    FlyError where the kernel is gone."""

    async def ask(self) -> None:
        """Have a new code shown on the console of that kernel. A code shown before is no longer valid."""
        ...

    async def pair(self, code: str) -> str:
        """Present the code. Return `""` where it was right, and otherwise why it was refused, with the number
        of tries left."""
        ...


class AttachedKernel(msgspec.Struct):
    """An attachment, from when the kernel accepted the connection until the connection ends."""

    pairing: PairingConnection
    pid: int
    since: float
    """When the kernel started, in Unix seconds."""
    role: str
    paired: bool = False
    pairing_offered: bool = False
    """Whether the screen for the code has opened by itself at this kernel."""

    @property
    def holder(self) -> str:
        """The process that has the kernel, such as `the console on pid 4121`."""
        return f"{ROLE_NAMES.get(self.role, self.role)} on pid {self.pid}"


class PairingRequest(msgspec.Struct, frozen=True):
    """A console that asks to pair with this console's kernel."""

    code: str
    who: str
    """The process and the user it was started for, as the kernel found out."""
    pid: int
    expires_at: float
    """When the code expires, in Unix seconds."""


class OpeningConnection(msgspec.Struct, frozen=True):
    """The first connection is being opened. There is no kernel yet, and so nothing to call or to decide."""

    waiting_for: str = ""
    """The process that still holds the root; `""` where the console waits for none."""


class OpenConnection(msgspec.Struct, frozen=True):
    """The console works with a kernel."""

    client: Client
    """The client. It makes calls over a second connection, because a connection that decides may not call."""
    approver: Approver
    attachment: AttachedKernel | None = None
    """The attachment to another one's kernel; None where it is the kernel beside this console."""


class LostConnection(msgspec.Struct, frozen=True):
    """The kernel that this console worked with no longer answers. Times are on the console's clock."""

    last: OpenConnection
    """The connection that was lost. Its client and its approver refuse everything themselves."""
    since: float
    reason: str = "the kernel ended"
    restarts: bool = False
    """Whether it was the kernel beside this console: the supervisor starts the next one."""

    def seconds_since(self, now: float) -> int:
        """The whole seconds since the kernel was lost."""
        return max(0, int(now - self.since))

    def seconds_left(self, now: float) -> int:
        """The whole seconds for which the kernel will still be looked for; 0 when the time is over."""
        # Rounded up, so that 0 is drawn only once the search has ended.
        return max(0, int(SEARCH_S - (now - self.since) + 0.999))


class FailedConnection(msgspec.Struct, frozen=True):
    """The root could not be opened. The console's other roots are not held up by it."""

    reason: str


Connection = OpeningConnection | OpenConnection | LostConnection | FailedConnection
OpenKernel = Callable[[Callable[[str], None]], AbstractAsyncContextManager[OpenConnection]]
"""Connects to the kernel beside this console, as its paired console. Its argument is called with the name of
the process that the kernel waits for. Raises RootBusy where another process holds the root, KernelUnreachable
where the kernel ended before it answered, and other FlyErrors."""
OpenAttachment = Callable[[], AbstractAsyncContextManager[OpenConnection]]
"""Attaches to the kernel of the process that holds the root. Raises KernelUnreachable where there is none
that accepts an attachment, and other FlyErrors where the protocol fails."""


def normalise_code(written: str) -> str:
    """The code in upper case, without dashes and spaces, as it is compared."""
    return "".join(letter for letter in written.upper() if letter.isalnum())


def grouped_code(code: str) -> str:
    """The code in groups of four, such as `K7QM-4TXP`, for reading it aloud."""
    return "-".join(code[at : at + _GROUP] for at in range(0, len(code), _GROUP))
