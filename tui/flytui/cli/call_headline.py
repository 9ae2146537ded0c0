"""The first line about a call that succeeded. It uses the standard library only."""

from __future__ import annotations


def time_words(sandbox: str | None, duration_ms: int, waited_ms: int) -> str:
    """The times of a call in parentheses, after a blank; empty where it never ran nor waited."""
    times = [] if sandbox is None else [f"in {duration_ms} ms, sandbox {sandbox}"]
    if waited_ms >= 1000:
        times.append(f"waited {waited_ms / 1000:.1f} s")
    return f" ({', '.join(times)})" if times else ""


def success_line(
    status: str, tool: str, sidecar: str | None, sandbox: str | None, duration_ms: int, waited_ms: int
) -> str:
    """Status, tool, sidecar and times of a call without an error."""
    by = f" by {sidecar}" if sidecar else ""
    return f"{status}: {tool}{by}{time_words(sandbox, duration_ms, waited_ms)}"
