"""The check that the whole audit log is as it was written; it names the first place that is not."""

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
"""Exit codes of `flytui audit verify`. TORN is a half-written last line, CUT are lines missing at the end."""


def verify(folder: Path, anchors: Path) -> Verification:
    """Check every byte of the log, oldest file first, and compare it with its anchors. Changes nothing."""
    # Anchors first: a kernel may write meanwhile, and then the log is ahead of these anchors. Read the other
    # way round, a newer anchor would look as if lines were missing.
    try:
        anchor_hashes = read_anchors(anchors)
    except (UnreadableAnchors, OSError) as error:
        return Verification(exit_code=BROKEN, lines=0, message=str(error), file=str(anchors))
    check = _ChainCheck(anchor_hashes)
    try:
        files = [path for path in month_files(folder) if path.stat().st_size] if folder.exists() else []
        for path in files:
            problem = check.check_file(path, newest=path == files[-1])
            if problem is not None:
                return problem
    except OSError as error:
        return check.result(BROKEN, f"cannot be read: {error.strerror}", check.last.seq + 1)
    return check.end()


class _ChainCheck:
    """The state of one check: the last whole line, and where it is."""

    def __init__(self, anchors: dict[int, str]) -> None:
        self.last = ChainLink(0, "", GENESIS)
        self._anchors = anchors
        self._path, self._line = Path(), 0
        self._previous = (Path(), 0)
        self._torn = 0

    def check_file(self, path: Path, *, newest: bool) -> Verification | None:
        """Check one file; return the first problem. A torn line at the end of the newest waits for `end`."""
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
                self._previous = (path, self._line)
        return None

    def _step(self, raw: bytes) -> Verification | None:
        expected = self.last.seq + 1
        link = read_link(raw[:-1]) if raw.endswith(b"\n") else None
        if link is None:
            return self.result(BROKEN, "this line was changed", expected)
        if link.seq > expected:
            missing = (
                f"line {expected}" if link.seq == expected + 1 else f"lines {expected} to {link.seq - 1}"
            )
            return self.result(BROKEN, f"removed before this line, or reordered: {missing}", expected)
        if link.seq < expected:
            return self.result(BROKEN, f"number {link.seq} is here again: doubled or reordered", link.seq)
        if link.prev != self.last.hash:
            return self._replaced(expected)
        if self._anchors.get(link.seq, link.hash) != link.hash:
            return self.result(BROKEN, "this line differs from its anchor", link.seq)
        self.last = link
        return None

    def _replaced(self, seq: int) -> Verification:
        """The result if the line before is valid by itself, but not the one that was written there."""
        path, line = self._previous
        if not line:
            return self.result(BROKEN, "the first line does not start the log", seq)
        return Verification(
            exit_code=BROKEN,
            lines=self.last.seq - 1,
            message="this line was replaced: the next line holds the hash of a different one",
            file=str(path),
            line=line,
            seq=self.last.seq,
        )

    def result(self, exit_code: int, message: str, seq: int) -> Verification:
        """The verification at the line that was read last."""
        return Verification(
            exit_code=exit_code,
            lines=self.last.seq,
            message=message,
            file=str(self._path) if self._line else "",
            line=self._line,
            seq=seq,
        )

    def end(self) -> Verification:
        """The result once every line was read without a problem."""
        newest = max(self._anchors, default=0)
        if newest > self.last.seq:
            message = f"cut off after number {self.last.seq}: an anchor has number {newest}"
            return self.result(CUT, message, self.last.seq + 1)
        if self._torn:
            return self.result(TORN, f"the last line is torn: {self._torn} bytes", self.last.seq + 1)
        if not self.last.seq:
            return self.result(WHOLE, "no line yet", 0)
        anchored = f"anchored up to {newest}" if newest else "no anchor to compare with"
        return self.result(WHOLE, f"whole, {anchored}", self.last.seq)
