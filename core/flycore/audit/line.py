"""The members of a line that projections are made of, whichever event it is; the others are skipped."""

from __future__ import annotations

import msgspec

from flycore.audit.read import UNREADABLE, parse_line

LONGEST_NAME = 256
"""Characters of a tool or caller that are told apart; a forged log must not fill memory with names."""


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """One line. What it does not have is empty."""

    time: str = ""
    event: str = ""
    call_id: str = ""
    request_id: str = ""
    tool: str = ""
    caller: str = ""
    caller_key: str = ""
    sidecar: str = ""
    status: str = ""
    code: str = ""
    message: str = ""
    risk: str = ""
    decision: str = ""
    choice: str = ""
    decided_by: str = ""
    reason: str = ""
    took_ms: int = 0
    duration_ms: int = 0
    waited_ms: int = 0
    level: str = ""
    authority: str = ""

    @property
    def ran(self) -> bool:
        """Whether a call that ended had run: only then a level was applied."""
        return bool(self.level)

    @property
    def program(self) -> str:
        """The caller without its process: `socket:/usr/bin/agent`, the same for every start of it."""
        return self.caller_key.rsplit(":", 2)[0][:LONGEST_NAME]


_decode = msgspec.json.Decoder(Line).decode


def read_line(raw: bytes) -> Line | None:
    """The line; None where it is none, or a member has another type than the log writes."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        pass  # half a surrogate pair in a name is no UTF-8, but a line all the same
    line = parse_line(raw)
    try:
        return None if line.get("event") == UNREADABLE else msgspec.convert(line, Line)
    except msgspec.ValidationError:
        return None
