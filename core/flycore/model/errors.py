"""The exceptions of the kernel's boundary. A failed call is a value, not an exception.

FlyError
├── RootBusy            another kernel holds the root
├── KernelUnreachable   nobody answers on the socket
├── KernelFailed        no kernel can run on the root
├── ConnectionLost      the kernel went away during a request
├── NotConnected        no connection to a kernel is open yet
├── UnsafeSocket        whatever listens there need not be this user's kernel
├── OtherVersion        the kernel is of a version that this program does not go with
├── NotPaired           the console was given no say
├── ProtocolError       the peer speaks something else, or refuses
├── AuditUnwritable     the log cannot take a line
├── StateUnwritable     the folder of the root's state cannot be written
├── BundleRefused       a team bundle cannot be made, verified or applied
└── TokenRefused        no token can be made or taken away like that
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flycore.model.enums import Code, KernelRole


class FlyError(Exception):
    """Root of everything the kernel raises on purpose."""


class RootBusy(FlyError):
    """Another kernel holds the root's lock."""

    def __init__(self, pid: int, since: float, role: KernelRole, on_demand: bool = False) -> None:
        self.pid, self.since, self.role = pid, since, role
        self.on_demand = on_demand
        """Whether a command started the kernel, which gives way to a console."""
        super().__init__(f"the root is held by pid {pid} ({role})")


class KernelUnreachable(FlyError):
    """No kernel answers on the root's socket."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"no kernel answers on {path}")


class KernelFailed(FlyError):
    """A kernel ended because it cannot run on the root; its text says why."""


class ConnectionLost(FlyError):
    """The connection ended before the answer came."""


class NotConnected(FlyError):
    """The connection to a kernel is not open yet. Nothing was sent, and nothing is kept for later."""

    def __init__(self) -> None:
        super().__init__("the kernel is still being opened")


class UnsafeSocket(FlyError):
    """The socket's folder, or who answers on it, cannot be trusted."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path} is not used: {why}. Move it away, then try again")


class OtherVersion(FlyError):
    """The versions of this program and of the kernel do not work together."""

    def __init__(self, here: str, kernel: str, pid: int) -> None:
        self.here, self.kernel, self.pid = here, kernel, pid
        super().__init__(
            f"this is {here}, and the kernel that runs (pid {pid}) is {kernel}: "
            "end the older one and start it again with the newer version"
        )


class NotPaired(FlyError):
    """The console showed no pairing code, or a wrong one."""


class ProtocolError(FlyError):
    """A message was not understood, or the kernel refused it; then with the kernel's own words."""

    def __init__(self, sentence: str, *, code: str = "", said: str = "") -> None:
        self.code, self.said = code, said
        super().__init__(sentence)


class AuditUnwritable(FlyError):
    """The audit log cannot take a line; nothing may run."""

    def __init__(self, path: str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"audit log {path}: {cause}")


class StateUnwritable(FlyError):
    """The state folder of a root cannot be written, so that no kernel can run on it."""

    def __init__(self, path: str, cause: str, remedy: str) -> None:
        self.path, self.cause, self.remedy = path, cause, remedy
        super().__init__(f"{Code.STATE_UNWRITABLE}: {path}: {cause}; {remedy}")


class BundleRefused(FlyError):
    """A team bundle, or its key, cannot be used. The message is a sentence with what a person can do."""


class TokenRefused(FlyError):
    """The token book does not do that; the sentence says why, and holds no token."""


# What a client raises comes as itself, though task groups inside wrap it.


@contextmanager
def single_exception() -> Iterator[None]:
    """Around a task group: the one exception in it comes out alone; several stay a group."""
    try:
        yield
    except BaseExceptionGroup as group:
        leaf: BaseException = group
        while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
            leaf = leaf.exceptions[0]
        if isinstance(leaf, BaseExceptionGroup):
            raise
        raise leaf from None
