"""The figures that the benchmarks measure, by the name of the file, in the order of the goals.

A test compares this list with the table of docs/performance.md, and each run compares it with what was
measured. So the table has a row for each figure, and none that nothing measures.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.common import Row

_RUNNER, _KERNEL = "the runner, without the pipeline", "the whole kernel, run from a private copy"
_WARM = "the whole kernel"


def _p1(part: str) -> tuple[str, ...]:
    names = (
        "p50 of a call",
        "cpu of a call",
        "cpu of a call, against anyio",
        "8 in flight",
        "64 in flight",
        "threads at 32 in flight",
        "p50 with a 1 GiB parent",
    )
    return tuple(f"P1 {name}: {part}" for name in names)


FIGURES: dict[str, tuple[str, ...]] = {
    "p01_spawn": _p1(_RUNNER),
    "p01_kernel": _p1(_KERNEL),
    "p02_sandbox": (
        "P2 p50 of a call: the whole kernel, level enforced",
        "P2 8 in flight: the whole kernel, level enforced",
    ),
    "p03_cold": ("P3 p50 of a cold call: the whole kernel",),
    "p04_staying": (
        f"P4 p50 of a call: {_RUNNER}",
        f"P4 against its cold call: {_RUNNER}",
        f"P4 p50 of a call: {_WARM}",
        f"P4 against its cold call: {_WARM}",
        f"P4 against an MCP stdio call: {_RUNNER}",
        f"P4 against an MCP stdio call: {_WARM}",
    ),
    "p05_output": (
        f"P5 100 MiB on stderr: {_RUNNER}",
        f"P5 memory for stderr: {_RUNNER}",
        f"P5 100 MiB on stdout: {_RUNNER}",
        f"P5 memory for stdout: {_RUNNER}",
    ),
    "p06_registry": (
        "P6 1,000 sidecars",
        "P6 10,000 sidecars",
        "P6 growth for ten times as many",
    ),
    "p07_executables": (
        "P7 warm scan of 200",
        "P7 200 schemas of C tools, 2 at once",
    ),
    "p08_catalog": ("P8 flytui: the first catalog --json, no kernel", "P8 flytui: the second"),
    "p09_console": (
        "P9 exec to usable rows, 100 tools",
        "P9 exec to usable rows, 10,000 tools",
        "P9 key to frame, 10,000 tools",
        "P9 filter key to frame, 10,000 tools",
        "P9 memory with 10,000 tools",
    ),
    "p10_doors": (
        "P10 p50 of a call, MCP: the door alone",
        "P10 p50 of a call, MCP: the whole kernel",
        "P10 p50 of a call, WebSocket: the door alone",
        "P10 p50 of a call, WebSocket: the whole kernel",
    ),
    "p11_audit": (
        "P11 append, no fsync",
        "P11 append, one fsync for 64 lines",
        "P11 verify",
        "P11 metrics, rebuilt",
    ),
    "p12_load": (
        "P12 calls under load",
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
        "P14 idle: growth",
        "P14 a waiting card: share of a core",
        "P14 a day: growth",
        "P14 a day: verify the log",
    ),
    "p15_mcp_start": (
        "P15 flytui mcp, from its start to initialize",
        "P15 flytui mcp, from its start to the list of tools",
    ),
    "p15_upstream": (
        "P15 p50 of a call of an upstream tool, against the server itself",
        "P15 p50 of a call of an upstream tool, against fastmcp's proxy",
    ),
    "p16_callers": ("P16 one call for each of so many callers at once",),
    "p16_logs": (
        "P16 a kernel starts, by lines of the log",
        "P16 the first page of the Audit screen, by lines of the log",
        "P16 metrics from the log, by its lines",
        "P16 the log is verified, by its lines",
    ),
    "p16_servers": (
        "P16 a kernel starts with all tools, by MCP servers",
        "P16 the tools of all as a client lists them, by MCP servers",
    ),
    "p16_tools": (
        "P16 a registry is loaded, by tools",
        "P16 its catalog is built, by tools",
        "P16 the catalog as a document, by tools",
        "P16 the tools as an MCP client lists them, by tools",
        "P16 the filter of the console, by tools",
        "P16 names like a wrong one, by tools",
    ),
    "s15_loop": (
        "S15 longest pause of the loop",
        "S15 slowest ping",
        "S15 memory above rest",
        "S15 unanswered",
    ),
}


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
