"""Audit values: metrics that are computed from the audit log, and the result of its verification."""

from __future__ import annotations

from flycore.model.base import Value


class LastError(Value, frozen=True, kw_only=True):
    """The last call of a tool that failed. A denied call did not fail."""

    at: str
    code: str
    message: str


class ToolMetrics(Value, frozen=True, kw_only=True):
    """The metrics of one tool. Durations are those of calls that ran, without waiting, in milliseconds."""

    tool: str
    calls: int
    """All calls: the sum of the outcomes below and of `open`."""
    success: int
    failed: int
    denied: int
    unavailable: int
    other: int
    """Pending, or with an outcome that is not known."""
    open: int
    """Calls without an end in the log: they run now, or the kernel was killed meanwhile."""
    ran: int
    total_ms: int
    average_ms: float
    p95_ms: int
    """To within 0.2 %."""
    last_executed: str
    """When it last ran, in the format of the log; empty where it never did."""
    last_error: LastError | None


class Metrics(Value, frozen=True, kw_only=True):
    """The metrics of all tools, over the chosen lines of the log."""

    since: str
    """Time of the first line, in the format of the log; empty where there is no line, or for one caller."""
    until: str
    """Time of the last line."""
    lines: int
    unreadable: int
    """Lines that cannot be read; `flytui audit verify` says where the first one is."""
    tools: tuple[ToolMetrics, ...]


class ApprovalMetrics(Value, frozen=True, kw_only=True):
    """The requests that a person was asked about, of one caller and tool or of all. Shares are from 0 to
    1."""

    caller: str
    """Door and program of the caller, whatever its process; empty for all."""
    tool: str
    prompts: int
    approved: int
    denied: int
    timed_out: int
    withdrawn: int
    """Requests that ended because the caller or the console went away."""
    waiting: int
    """Requests without an end in the log."""
    not_shown: int
    """Requests that were refused before anyone saw them, because too many waited. They do not count as
    prompts."""
    active_hours: int
    """Hours of the clock with at least one prompt."""
    prompts_per_hour: float
    """Average over the active hours."""
    busiest_hour: int
    """Prompts in the busiest of these hours."""
    approved_at_once: int
    """Requests that were approved within a second of asking."""
    approved_at_once_share: float
    """Their share of the approved requests."""
    denied_share: float
    """Share of denied requests among those that a person decided."""
    median_ms: int
    """Median time from asking to a person's answer."""
    p95_ms: int


class ApprovalReport(Value, frozen=True, kw_only=True):
    """How often a person was asked."""

    total: ApprovalMetrics
    pairs: tuple[ApprovalMetrics, ...]
    """Metrics for each caller and tool, the most asked first."""


class Verification(Value, frozen=True, kw_only=True):
    """The result of verifying the audit log. `file`, `line` and `seq` name the first fault."""

    exit_code: int
    """0: whole; 1: broken; 3: only the last line is incomplete; 4: lines that the anchors name are missing at
    the end."""
    lines: int
    """Number of lines that are as they were written."""
    message: str
    file: str = ""
    """Path of the file."""
    line: int = 0
    """Number of the line in that file, counted from 1."""
    seq: int = 0
    """Sequence number of the line in the log."""

    @property
    def whole(self) -> bool:
        """Whether the log has no fault."""
        return self.exit_code == 0

    @property
    def torn(self) -> bool:
        """Whether the only fault is an incomplete last line."""
        return self.exit_code == 3

    @property
    def cut(self) -> bool:
        """Whether lines that the anchors name are missing at the end."""
        return self.exit_code == 4
