"""What a kernel says of itself."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import KernelRole, Risk


class Status(Value, frozen=True, kw_only=True):
    """One kernel at one moment."""

    app_root: str
    pid: int
    since: float
    """Unix time, seconds."""
    role: KernelRole
    """`console`, `serve` or `provisional`."""
    version: str
    approver: bool
    """Whether a console can decide."""
    consoles: int = 0
    """How many consoles can."""
    clients: int
    """How many connections there are."""
    agents: int = 0
    """How many of them may call: all but viewers, which consoles and commands such as `status` are."""
    waiting: int
    running: int
    leases: int
    policy_ok: bool
    sandbox: str
    """One sentence on what confinement this machine gives now."""
    waiting_trust: int
    hands_on: bool = False
    """Whether a computer.* call runs, or ran less than two seconds ago."""
    waiting_risk: Risk | None = None
    """The highest risk among the requests that wait."""
    notify_problem: str = ""
    """Why `notify.command` last did not do its work."""
    anchor_problem: str = ""
    """Why the audit log could not leave its last anchor; without anchors nobody sees that its end was cut."""
    panic: bool = False
    """Whether everything is stopped until a person releases it."""
    listening: tuple[str, ...] = ()
    """Addresses of the doors besides the Unix socket, such as `ws://127.0.0.1:8787/ws`."""
