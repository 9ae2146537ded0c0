"""Whether the log is as it was written, and if not, where it first is not."""

from __future__ import annotations

from pathlib import Path

from flycore.audit.chain import (
    GENESIS,
    ChainLink,
    UnreadableAnchors,
    month_files,
    read_anchors,
    read_lines,
    read_link,
)
from flycore.model.audit import Verification

WHOLE, BROKEN, TORN, CUT = 0, 1, 3, 4


def verify(folder: Path, anchors: Path) -> Verification:
    """Check every byte of the log, month by month, and what the anchors know of it. Changes nothing.

    Anchors are read first: a log that is written meanwhile is only ever ahead of them.
    """
    try:
        known = read_anchors(anchors)
    except (UnreadableAnchors, OSError) as error:
        return Verification(exit_code=BROKEN, lines=0, message=str(error), file=str(anchors))
    walk = _ChainCheck(known)
    try:
        files = [path for path in month_files(folder) if path.stat().st_size] if folder.exists() else []
        for path in files:
            found = walk.check(path, newest=path == files[-1])
            if found is not None:
                return found
    except OSError as error:
        return walk.found(BROKEN, f"cannot be read: {error.strerror}", walk.last.seq + 1)
    return walk.end()


class _ChainCheck:
    """The chain so far: the last whole line and where it stands."""

    def __init__(self, known: dict[int, str]) -> None:
        self.last = ChainLink(0, "", GENESIS)
        self._known = known
        self._path, self._line = Path(), 0
        self._before = (Path(), 0)
        self._torn = 0

    def check(self, path: Path, *, newest: bool) -> Verification | None:
        """Go through one file; None while nothing is wrong. The newest one's torn end is kept for `end`."""
        with path.open("rb") as file:
            self._path, self._line = path, 0
            for raw in read_lines(file):
                self._line += 1
                if not raw.endswith(b"\n") and newest and not file.read(1):
                    self._torn = len(raw)
                    return None
                problem = self._step(raw)
                if problem is not None:
                    return problem
                self._before = (path, self._line)
        return None

    def _step(self, raw: bytes) -> Verification | None:
        expected = self.last.seq + 1
        link = read_link(raw[:-1]) if raw.endswith(b"\n") else None
        if link is None:
            return self.found(BROKEN, "this line was changed", expected)
        if link.seq > expected:
            missing = f"number {expected}" if link.seq == expected + 1 else f"{expected} to {link.seq - 1}"
            return self.found(BROKEN, f"removed before this line, or reordered: {missing}", expected)
        if link.seq < expected:
            return self.found(BROKEN, f"number {link.seq} again: doubled or reordered", link.seq)
        if link.prev != self.last.hash:
            return self._replaced(expected)
        if self._known.get(link.seq, link.hash) != link.hash:
            return self.found(BROKEN, "the anchors know another line of this number", link.seq)
        self.last = link
        return None

    def _replaced(self, seq: int) -> Verification:
        """The line before is whole in itself, but not the one this line was written after."""
        path, line = self._before
        if not line:
            return self.found(BROKEN, "the first line does not start the log", seq)
        return Verification(
            exit_code=BROKEN,
            lines=self.last.seq - 1,
            message="this line was replaced: the next one was written after another",
            file=str(path),
            line=line,
            seq=self.last.seq,
        )

    def found(self, exit_code: int, message: str, seq: int) -> Verification:
        return Verification(
            exit_code=exit_code,
            lines=self.last.seq,
            message=message,
            file=str(self._path) if self._line else "",
            line=self._line,
            seq=seq,
        )

    def end(self) -> Verification:
        """What is to be said once every line has been read."""
        newest = max(self._known, default=0)
        if newest > self.last.seq:
            message = f"cut off after number {self.last.seq}: the anchors know number {newest}"
            return self.found(CUT, message, self.last.seq + 1)
        if self._torn:
            return self.found(TORN, f"the last line is torn: {self._torn} bytes", self.last.seq + 1)
        if not self.last.seq:
            return self.found(WHOLE, "no line yet", 0)
        anchored = f"anchored up to {newest}" if newest else "no anchor to compare with"
        return self.found(WHOLE, f"whole, {anchored}", self.last.seq)
