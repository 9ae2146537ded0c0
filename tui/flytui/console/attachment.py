"""A kernel that is not this console's own: how the console is attached to it, and who asks to be at ours.

Pure but for what the way to the kernel, handed in, does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from flycore.client.protocol import Approver, Client

CODE_LETTERS = 8
_GROUP = 4
SEARCH_S = 30.0
"""So long a kernel that went away is looked for again."""
ROLE_NAMES = {"serve": "flytui serve", "console": "the console"}


class PairingConnection(Protocol):
    """The way of one connection from a viewer to one that decides. Raises FlyError where it fails."""

    async def ask(self) -> None:
        """Have a fresh code shown where a person sits at that kernel; one asked for before ends."""
        ...

    async def pair(self, code: str) -> str:
        """Present the code. `""` once it was right; else why it does not count, with the tries left."""
        ...


@dataclass(slots=True)
class AttachedKernel:
    """An attachment, from when the kernel took the connection until that ends."""

    client: Client
    """Its calls go over a connection of their own: what views and decides cannot call."""
    approver: Approver
    pairing: PairingConnection
    pid: int
    since: float
    """Unix time, seconds, since when the kernel runs."""
    role: str
    paired: bool = False
    pairing_offered: bool = False
    """Whether the line for the code has opened by itself."""

    @property
    def holder(self) -> str:
        """`the console on pid 4121`."""
        return f"{ROLE_NAMES.get(self.role, self.role)} on pid {self.pid}"


OpenAttachment = Callable[[], AbstractAsyncContextManager[AttachedKernel]]
"""Attaches to the kernel that holds the root. Raises KernelUnreachable where none does that may be attached
to, and other FlyErrors where it cannot be spoken with."""


@dataclass(frozen=True, slots=True)
class PairingRequest:
    """Another console that asks to decide here, too."""

    code: str
    who: str
    """As the kernel found out: the process, and for whom it was started."""
    pid: int
    expires_at: float
    """Unix time, seconds."""


@dataclass(frozen=True, slots=True)
class LostKernel:
    """The kernel that this console was attached to does not answer any more. Times on the desk's clock."""

    since: float

    def seconds_since(self, now: float) -> int:
        """How long ago, whole seconds."""
        return max(0, int(now - self.since))

    def seconds_left(self, now: float) -> int:
        """How long it will be looked for, in whole seconds; 0 when that is over."""
        return max(0, int(SEARCH_S - (now - self.since) + 0.999))


def normalise_code(written: str) -> str:
    """A code as it is compared: however it was typed, dashes and spaces do not count."""
    return "".join(letter for letter in written.upper() if letter.isalnum())


def grouped_code(code: str) -> str:
    """`K7QM-4TXP`: in groups, for reading aloud."""
    return "-".join(code[at : at + _GROUP] for at in range(0, len(code), _GROUP))
