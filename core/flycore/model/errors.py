"""Exceptions of the kernel's boundary. A failed call is a value, not one of these.

FlyError
├── RootBusy            another kernel holds the root
├── KernelUnreachable   nobody answers on the socket
├── ConnectionLost      the kernel went away during a request
├── ProtocolError       the peer speaks something else
├── AuditUnwritable     the log cannot take a line
└── TokenRefused        no token can be made or taken away like that
"""

from __future__ import annotations


class FlyError(Exception):
    """Root of everything the kernel raises on purpose."""


class RootBusy(FlyError):  # noqa: N818 - the field's words say what is, not «Error»
    """Another kernel holds the root's lock."""

    def __init__(self, pid: int, since: float, role: str) -> None:
        self.pid, self.since, self.role = pid, since, role
        super().__init__(f"the root is held by pid {pid} ({role})")


class KernelUnreachable(FlyError):  # noqa: N818
    """No kernel answers on the root's socket."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"no kernel answers on {path}")


class ConnectionLost(FlyError):  # noqa: N818
    """The connection ended before the answer came."""


class ProtocolError(FlyError):
    """A message that the protocol does not know."""


class AuditUnwritable(FlyError):  # noqa: N818
    """The audit log cannot take a line; nothing may run."""

    def __init__(self, path: str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"audit log {path}: {cause}")


class TokenRefused(FlyError):  # noqa: N818
    """The token book does not do that; the sentence says why, and holds no token."""
