"""What is not enforced is never said to be."""

from __future__ import annotations

import pytest

from flycore.model.enums import Level
from flycore.model.sidecar import Limits, Permissions
from flycore.sandbox.levels import MECHANISM, report

EVERYTHING = Permissions(network=True, read=(".", "docs"), write=("out",), secrets=("KEY",), desktop=True)


@pytest.mark.parametrize("bundled", [True, False])
@pytest.mark.parametrize(
    ("permissions", "level"), [(Permissions(), Level.NONE), (EVERYTHING, Level.HOST_CONTROL)]
)
def test_network_and_files_are_open_and_said_to_be(
    permissions: Permissions, level: Level, bundled: bool
) -> None:
    given = report(permissions, Limits(), bundled=bundled)
    assert (given.level, given.mechanism) == (level, MECHANISM)
    rows = {row.name: row for row in given.permissions}
    for name in ("network", "files read", "files write"):
        assert not rows[name].enforced
        assert "not enforced yet" in rows[name].why
    assert rows["secrets"].enforced
    assert ("desktop" in rows) == permissions.desktop
    assert "limits" not in rows


def test_what_is_declared_is_shown() -> None:
    limits = Limits(cpu_seconds=60, open_files=256)
    rows = {row.name: row for row in report(EVERYTHING, limits, bundled=False).permissions}
    assert {name: row.declared for name, row in rows.items()} == {
        "network": "this machine's whole network",
        "files read": "., docs",
        "files write": "out",
        "secrets": "KEY",
        "desktop": "sees and controls the screen",
        "limits": "60 s cpu, 256 open files",
    }
    assert not rows["desktop"].enforced
    assert rows["limits"].enforced
