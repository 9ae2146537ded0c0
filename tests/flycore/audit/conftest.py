"""A log in a temporary folder, with clocks set by hand."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from flycore.audit.log import AuditLog, OnLine
from flycore.audit.verify import verify
from flycore.model.audit import Verification

NOON = 1_781_524_800.0
"""2026-06-15 12:00 UTC."""


class Site:
    """Where a log lives; `open` gives the one writer, `check` verifies what is on disk."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "audit"
        self.anchors = root / "anchors" / "key.jsonl"
        self.now = NOON
        self.mono = 100.0
        self._open: list[AuditLog] = []

    def open(self, on_line: OnLine | None = None) -> AuditLog:
        log = AuditLog.open(
            self.folder, self.anchors, clock=lambda: self.now, monotonic=lambda: self.mono, on_line=on_line
        )
        self._open.append(log)
        return log

    def fill(self, lines: int, *, closed: bool = True) -> AuditLog:
        """A log with so many lines; left open, it has no anchor."""
        log = self.open()
        for number in range(1, lines + 1):
            self.now += 1
            self.mono += 1
            log.append("TOOL_CALLED", {"callId": f"call-{number}", "tool": "mock.echo"})
        log.flush()
        if closed:
            log.close()
        return log

    def check(self) -> Verification:
        return verify(self.folder, self.anchors)

    @property
    def file(self) -> Path:
        """The newest month."""
        return sorted(self.folder.glob("????-??.jsonl"))[-1]

    @property
    def lines(self) -> list[bytes]:
        return self.file.read_bytes().splitlines(keepends=True)

    def copy(self, root: Path) -> Site:
        """The same bytes elsewhere, with no writer."""
        other = Site(root)
        other.now, other.mono = self.now, self.mono
        shutil.copytree(self.folder, other.folder)
        if self.anchors.exists():
            shutil.copytree(self.anchors.parent, other.anchors.parent)
        return other

    def let_go(self) -> None:
        """Close whatever is open, as a kernel does at its end."""
        for log in self._open:
            if not log.stopped:
                log.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.let_go()
