"""The status of a kernel."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import KernelRole, Risk


class Status(Value, frozen=True, kw_only=True):
    """The state of one kernel at one moment."""

    app_root: str
    pid: int
    since: float
    """Unix time, seconds."""
    role: KernelRole
    """`console` or `headless`."""
    on_demand: bool = False
    """Whether a command started the kernel: it ends when nobody uses it, and gives way to a console."""
    version: str
    approver: bool
    """Whether a console that can decide is open."""
    consoles: int = 0
    """Number of consoles that can decide."""
    clients: int
    """Number of connections."""
    agents: int = 0
    """Number of connections of clients that make calls. Consoles and commands such as `status` are none."""
    waiting: int
    running: int
    leases: int
    policy_ok: bool
    waiting_rules: int = 0
    """Looser rules of the user's policy file, or removals of stricter ones, that wait for a person."""
    sandbox: str
    """One sentence that says how this machine can confine programs now."""
    waiting_trust: int
    hands_on: bool = False
    """Whether a `computer.*` call runs, or ended less than two seconds ago."""
    waiting_risk: Risk | None = None
    """The highest risk among the requests that wait."""
    notify_problem: str = ""
    """Why `notify.command` failed the last time."""
    anchor_problem: str = ""
    """Why the audit log could not write its last anchor. Without anchors, nobody can see that lines at its
    end were removed."""
    turned_away: int = 0
    """Number of requests that found the queue full since a request last found it empty."""
    panic: bool = False
    """Whether everything is stopped until a person releases it."""
    listening: tuple[str, ...] = ()
    """Addresses of the doors other than the Unix socket, such as `ws://127.0.0.1:8787/ws`."""
    loop_pauses: int = 0
    """How often the kernel's event loop stood still for more than 100 milliseconds."""
    longest_pause_ms: int = 0
    latest_pause: str = ""
    """The length and the place of the latest such pause; empty where there was none."""
