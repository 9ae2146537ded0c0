"""Which level a call gets, which one it needs, and that nothing is said to be enforced that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flycore.model.enums import Kind, Level, Source
from flycore.model.sidecar import Limits, Permissions, SidecarEntry, ToolClaim
from flycore.sandbox.detection import INSTALL_BUBBLEWRAP, UNTRIED, LevelCheck, SandboxSupport
from flycore.sandbox.levels import ELSEWHERE, MECHANISM, minimum_level, report, sandbox_level
from flysafe.control_groups import memory_control

MakeEntry = Callable[..., SidecarEntry]
EVERYTHING = Permissions(network=True, read=(".", "docs"), write=("out",), secrets=("KEY",))
DECLARED: dict[str, Any] = {"raw": {"permissions": {}}}
AT_URL: dict[str, Any] = {"kind": Kind.MCP, "url": "https://mcp.example/"}
NO_BWRAP = LevelCheck(Level.ENFORCED, works=False, reason="there is none", remedy=INSTALL_BUBBLEWRAP)
NO_LANDLOCK = LevelCheck(Level.DEGRADED, works=False, remedy="another kernel")
ENFORCING = SandboxSupport((LevelCheck(Level.ENFORCED, works=True),))
DEGRADED = SandboxSupport((NO_BWRAP, LevelCheck(Level.DEGRADED, works=True)))
NOTHING = SandboxSupport((NO_BWRAP, NO_LANDLOCK))


@pytest.mark.parametrize(
    ("support", "best"),
    [(ENFORCING, Level.ENFORCED), (DEGRADED, Level.DEGRADED), (NOTHING, Level.NONE), (UNTRIED, Level.NONE)],
)
def test_the_best_level_is_the_strongest_that_works(support: SandboxSupport, best: Level) -> None:
    assert support.best is best


def test_the_remedy_is_that_of_a_level_that_would_do() -> None:
    assert NOTHING.remedy(Level.DEGRADED) == INSTALL_BUBBLEWRAP
    assert DEGRADED.remedy(Level.ENFORCED) == INSTALL_BUBBLEWRAP
    assert SandboxSupport((NO_LANDLOCK,)).remedy(Level.ENFORCED) == ""
    assert ENFORCING.remedy(Level.ENFORCED) == ""


CASES: list[tuple[dict[str, Any], bool, Level, Level]] = [
    # the entry, whether its program is ours, its level here, the weakest level that it may have
    (DECLARED, False, Level.ENFORCED, Level.DEGRADED),
    ({**DECLARED, "source": Source.USER}, False, Level.ENFORCED, Level.DEGRADED),
    (DECLARED, True, Level.ENFORCED, Level.NONE),
    ({}, False, Level.ENFORCED, Level.DEGRADED),
    ({}, True, Level.ENFORCED, Level.NONE),
    ({**DECLARED, "kind": Kind.PERSISTENT}, False, Level.ENFORCED, Level.DEGRADED),
    ({**DECLARED, "kind": Kind.MCP}, False, Level.ENFORCED, Level.DEGRADED),
    ({**DECLARED, **AT_URL}, False, Level.NONE, Level.NONE),
    ({**DECLARED, "permissions": Permissions(desktop=True)}, False, Level.HOST_CONTROL, Level.NONE),
    ({**DECLARED, "tools": (ToolClaim(name="browser.open"),)}, True, Level.HOST_CONTROL, Level.NONE),
    ({**DECLARED, "tools": (ToolClaim(name="audio.speak"),)}, True, Level.HOST_CONTROL, Level.NONE),
    # A name alone takes nobody else out of the sandbox.
    ({**DECLARED, "tools": (ToolClaim(name="browser.open"),)}, False, Level.ENFORCED, Level.DEGRADED),
]


@pytest.mark.parametrize(("fields", "bundled", "level", "least"), CASES)
def test_the_level_follows_from_the_entry(
    make_entry: MakeEntry, fields: dict[str, Any], bundled: bool, level: Level, least: Level
) -> None:
    entry = make_entry(**fields)
    assert sandbox_level(entry, ENFORCING, bundled=bundled) is level
    assert report(entry, ENFORCING, bundled=bundled).level is level
    assert minimum_level(entry, bundled=bundled) is least


@pytest.mark.parametrize("support", [ENFORCING, DEGRADED])
def test_where_it_is_confined_everything_declared_is_enforced(
    make_entry: MakeEntry, support: SandboxSupport
) -> None:
    entry = make_entry(permissions=EVERYTHING, limits=Limits(cpu_seconds=60), raw={"permissions": {}})
    given = report(entry, support, bundled=False)
    assert given.level is support.best
    assert given.mechanism != MECHANISM
    assert all(row.enforced for row in given.permissions)
    names = [row.name for row in given.permissions]
    assert names == ["network", "files read", "files write", "secrets"]


@pytest.mark.parametrize(
    ("fields", "support", "why"),
    [
        (DECLARED, NOTHING, "no sandbox works on this machine"),
        ({**DECLARED, "permissions": Permissions(desktop=True)}, ENFORCING, "it controls programs outside"),
    ],
)
@pytest.mark.parametrize("bundled", [True, False])
def test_network_and_files_that_are_open_are_said_to_be(
    make_entry: MakeEntry, fields: dict[str, Any], support: SandboxSupport, why: str, bundled: bool
) -> None:
    given = report(make_entry(**fields), support, bundled=bundled)
    assert given.mechanism == MECHANISM
    rows = {row.name: row for row in given.permissions}
    for name in ("network", "files read", "files write"):
        assert not rows[name].enforced
        assert rows[name].why.startswith("not enforced")
        assert why in rows[name].why
        assert rows[name].why.endswith("flytui's own") is bundled
    assert rows["secrets"].enforced
    assert ("desktop" in rows) == (given.level is Level.HOST_CONTROL)


def test_a_server_over_http_is_said_to_run_elsewhere(make_entry: MakeEntry) -> None:
    given = report(make_entry(**DECLARED, **AT_URL), ENFORCING, bundled=False)
    assert {row.why for row in given.permissions if not row.enforced} == {ELSEWHERE}


def test_what_is_declared_is_shown(make_entry: MakeEntry) -> None:
    permissions = Permissions(
        network=True, read=(".", "docs"), write=("out",), secrets=("KEY",), desktop=True
    )
    entry = make_entry(permissions=permissions)
    rows = {row.name: row for row in report(entry, ENFORCING, bundled=False).permissions}
    assert {name: row.declared for name, row in rows.items()} == {
        "network": "this machine's whole network",
        "files read": "., docs",
        "files write": "out",
        "secrets": "KEY",
        "desktop": "sees and controls the screen",
    }
    assert not rows["desktop"].enforced


def test_each_limit_has_a_row_also_where_the_default_holds(make_entry: MakeEntry) -> None:
    rows = {row.name: row for row in report(make_entry(), ENFORCING, bundled=False).limits}
    assert list(rows) == ["cpu", "memory", "file size", "open files", "processes", "output", "time"]
    assert [name for name, row in rows.items() if not row.enforced] == ["cpu", "file size"]
    assert rows["memory"].declared == "512 MiB (the default)"
    assert "RLIMIT_DATA" in rows["memory"].why
    assert "RLIMIT_AS" not in rows["memory"].why
    assert memory_control().why_not in rows["memory"].why
    assert rows["processes"].declared == "512 (the default)"


def test_declared_limits_are_enforced_and_name_their_mechanism(make_entry: MakeEntry) -> None:
    limits = Limits(cpu_seconds=60, memory_bytes=1_000, file_bytes=5, open_files=256, processes=3)
    entry = make_entry(limits=limits, max_output_bytes=77, timeout_ms=88)
    rows = {row.name: row for row in report(entry, ENFORCING, bundled=False).limits}
    assert all(row.enforced for row in rows.values())
    assert [row.declared for row in rows.values()] == [
        "60 s", "1000 bytes", "5 bytes", "256", "3", "77 bytes", "88 ms",
    ]  # fmt: skip
    assert "RLIMIT_AS), but not for node" in rows["memory"].why


def test_limits_of_a_server_elsewhere_are_not_said_to_be_enforced(make_entry: MakeEntry) -> None:
    entry = make_entry(**DECLARED, **AT_URL, limits=Limits(cpu_seconds=60))
    rows = report(entry, ENFORCING, bundled=False).limits
    assert [row.name for row in rows if row.enforced] == ["output", "time"]
