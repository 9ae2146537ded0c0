"""What the log says when it is added up, and whether it is whole: values for everybody who shows them."""

from __future__ import annotations

from flycore.model.base import Value


class LastError(Value, frozen=True, kw_only=True):
    """The newest call of a tool that failed by itself; a refusal is none."""

    at: str
    code: str
    message: str


class ToolMetrics(Value, frozen=True, kw_only=True):
    """One tool. Durations are of calls that ran, without waiting, in milliseconds."""

    tool: str
    calls: int
    """All that follow, and `open`."""
    success: int
    failed: int
    denied: int
    unavailable: int
    other: int
    """Pending, or with an outcome that is not known."""
    open: int
    """Without an end in the log: running, or the kernel was killed meanwhile."""
    ran: int
    total_ms: int
    average_ms: float
    p95_ms: int
    """To within 0.2 %."""
    last_executed: str
    """When it last ran, as the log writes times; empty where it never did."""
    last_error: LastError | None


class Metrics(Value, frozen=True, kw_only=True):
    """All tools, over the lines that were meant."""

    since: str
    """Time of the first line, as the log writes it; empty where there is none, or one caller is meant."""
    until: str
    """Time of the last line."""
    lines: int
    unreadable: int
    """Lines that are none; `flytui audit verify` says where the first one is."""
    tools: tuple[ToolMetrics, ...]


class ApprovalMetrics(Value, frozen=True, kw_only=True):
    """Cards put before a person: of one caller and tool, or of all. Shares are from 0 to 1."""

    caller: str
    """Door and program, whichever process it was; empty for all."""
    tool: str
    prompts: int
    approved: int
    denied: int
    timed_out: int
    withdrawn: int
    """The caller went away, or the console did."""
    waiting: int
    """Without an end in the log."""
    not_shown: int
    """Refused before anyone could see them, because too many waited; they are no prompts."""
    active_hours: int
    """Hours of the clock with at least one prompt."""
    prompts_per_hour: float
    """Over the active hours."""
    busiest_hour: int
    """Prompts in the worst of them."""
    approved_at_once: int
    """Approved within a second of asking."""
    approved_at_once_share: float
    """Of the approved ones."""
    denied_share: float
    """Of those a person decided."""
    median_ms: int
    """From asking to a person's answer."""
    p95_ms: int


class ApprovalReport(Value, frozen=True, kw_only=True):
    """How much a person was asked."""

    total: ApprovalMetrics
    pairs: tuple[ApprovalMetrics, ...]
    """Per caller and tool, the most asked first."""


class Verification(Value, frozen=True, kw_only=True):
    """What was found; where something is wrong, `file`, `line` and `seq` name its first place."""

    exit_code: int
    """0 whole, 1 broken, 3 nothing but a torn last line, 4 cut off against the anchors."""
    lines: int
    """Lines that are as they were written."""
    message: str
    file: str = ""
    """Path of the file."""
    line: int = 0
    """Number of the line in that file, counted from 1."""
    seq: int = 0
    """Number of the line in the log."""

    @property
    def whole(self) -> bool:
        """Nothing is wrong."""
        return self.exit_code == 0

    @property
    def torn(self) -> bool:
        """Nothing but the last line's end is missing."""
        return self.exit_code == 3

    @property
    def cut(self) -> bool:
        """The anchors know of lines that are not there."""
        return self.exit_code == 4
