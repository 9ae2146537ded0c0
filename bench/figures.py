"""The figures that the benchmarks measure, by the name of the file, in the order of the goals.

A test compares this list with the table of docs/performance.md, and each run compares it with what was
measured. So the table has a row for each figure, and beside them only the goals that nothing measures yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.common import Row

_RUNNER = "the runner, without the pipeline"

FIGURES: dict[str, tuple[str, ...]] = {
    "p01_call": ("P1 p50 of a call", "P1 the kernel's own cpu"),
    "p02_in_flight": ("P2 8 in flight", "P2 8 in flight, against 2", "P2 cpu of a call, 8 in flight"),
    "p03_cold": ("P3 p50 of a cold call",),
    "p04_staying": ("P4 p50 of a call",),
    "p05_output": (
        f"P5 memory for an answer of 16 MiB: {_RUNNER}",
        f"P5 100 MiB on stderr: {_RUNNER}",
        f"P5 memory for stderr: {_RUNNER}",
    ),
    "p06_registry": ("P6 100 entries", "P6 1,000 entries"),
    "p07_executables": ("P7 warm scan of 200",),
    "p08_catalog": ("P8 flytui: the first catalog --json, no kernel", "P8 flytui: the second"),
    "p09_console": (
        "P9 exec to usable rows, 100 tools",
        "P9 exec to usable rows, 1,000 tools",
        "P9 key to frame, 1,000 tools",
        "P9 filter key to frame, 1,000 tools",
    ),
    "p10_upstream": (
        "P10 p50 of a call of an upstream tool, against the server itself",
        "P10 p50 of a call of an upstream tool, against fastmcp's proxy",
    ),
    "p11_audit": ("P11 append, cpu", "P11 verify"),
    "p12_load": (
        "P12 lost",
        "P12 double",
        "P12 overlaps of an exclusive group",
        "P12 memory growth",
    ),
    "p13_commands": (
        "P13 flytui hook, a command that only reads",
        "P13 flytui call",
        "P13 flytui call, key=value",
        "P13 flytui status",
        "P13 flytui status --json",
        "P13 flytui catalog",
        "P13 flytui catalog --json",
        "P13 flytui why",
        "P13 flytui why --json",
        "P13 flytui --help",
        "P13 flytui call --help",
        "P13 flytui activity",
        "P13 flytui approvals",
        "P13 flytui audit tail",
        "P13 flytui config show",
        "P13 flytui doctor",
        "P13 flytui grants",
        "P13 flytui inspect",
        "P13 flytui lint",
        "P13 flytui metrics",
        "P13 flytui policy check",
        "P13 flytui tools list",
        "P13 flytui trust --print-digest",
        "P13 a completion",
        "P13 a completion of a tool's name",
    ),
    "p14_idle": (
        "P14 idle: share of a core",
        "P14 idle: wake-ups of all threads",
        "P14 memory of all processes",
        "P14 memory of a connected agent",
        "P14 a waiting card: share of a core",
        "P14 a day: growth",
    ),
    "p15_mcp_start": (
        "P15 flytui mcp: initialize, no kernel",
        "P15 flytui mcp: tools/list, beside a kernel",
        "P15 flytui mcp: tools/list, no kernel",
    ),
    "p16_logs": ("P16 the first page of the Audit screen", "P16 flytui metrics"),
    "p19_approval": (
        "P19 an agent's call until its card is painted",
        "P19 the approving key until the program runs",
    ),
    "p20_servers": ("P20 a kernel lists the tools of 200 MCP servers", "P20 servers that it starts for that"),
    "p20_queue": ("P20 key to next card, 100 requests of 20 agents",),
    "s15_loop": (
        "S15 longest pause of the loop",
        "S15 slowest ping",
        "S15 memory above rest",
        "S15 unanswered",
    ),
}

FULL_ONLY = frozenset({"p07_executables", "s15_loop"})
"""Files whose goals are met, and nobody feels by how much. A quick run leaves them out unless named."""

LATER = (
    Row.unmeasured("P16 the index of the log is rebuilt", "there is no index yet", "linear"),
    Row.unmeasured("P17 asks per 100 calls of real sessions", "nothing measures it yet", "≤ 4.0"),
    Row.unmeasured("P18 a call over NATS, over ssh", "there are no such calls yet", "≤ 2.5 ×, ≤ 3 × here"),
    Row.unmeasured(
        "P21 checkpoint before and look after a call", "nothing measures it yet", "≤ 2 × git status"
    ),
    Row.unmeasured(
        "P22 a shell line through hook and flytui run", "nothing measures it yet", "≤ 10 × a bare interpreter"
    ),
)
"""Goals that nothing measures yet."""


def in_order(rows: Sequence[Row]) -> list[Row]:
    """The rows in the order of their goals, S15 last; those of one goal stay as they are."""
    return sorted(rows, key=lambda row: (row.goal[0], int(row.goal[1:])))


def what(row: Row) -> str:
    """Return what the row measures: its name, and the part that its note names."""
    # A note with figures says how a figure came about; one without says which part of flytui it is of.
    part = "" if any(character.isdigit() for character in row.note) else row.note
    return f"{row.name}: {part}" if part and not row.why_not else row.name


def differences(stem: str, rows: Sequence[Row]) -> list[str]:
    """Return how the measured rows of a file differ from the list, each as a sentence."""
    measured = [f"{row.goal} {what(row)}" for row in rows]
    new = [f"{stem} measured what bench/figures.py does not list: {name}" for name in measured
           if name not in FIGURES[stem]]  # fmt: skip
    missing = [f"{stem} did not measure {name}" for name in FIGURES[stem] if name not in measured]
    return new + missing
