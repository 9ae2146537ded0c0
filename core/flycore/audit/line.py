"""The members of a line that projections are made of, whichever event it is; the others are skipped."""

from __future__ import annotations

import json

import msgspec

from flycore.audit.read import UNREADABLE, parse_line
from flycore.model.caller import caller_origin
from flycore.model.json import Json

LONGEST_NAME = 256
"""Characters of a tool or caller that are told apart; a forged log must not fill memory with names."""


EMPTY_RECORD = msgspec.Raw()


class LogRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One line. What it does not have is empty."""

    seq: int = 0
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
    parent_call_id: str = ""
    input_digest: str = ""
    input: msgspec.Raw = EMPTY_RECORD
    output: msgspec.Raw = EMPTY_RECORD
    artifacts: int = 0

    @property
    def ran(self) -> bool:
        """Whether a call that ended had run: only then a level was applied."""
        return bool(self.level)

    @property
    def program(self) -> str:
        """The caller without its process: `socket:/usr/bin/agent`, the same for every start of it."""
        return program_of(self.caller_key)


def program_of(caller_key: str) -> str:
    """Door and program of a caller's identity."""
    return caller_origin(caller_key)[:LONGEST_NAME]


_decode = msgspec.json.Decoder(LogRecord).decode


def read_line(raw: bytes) -> LogRecord | None:
    """The line; None where it is none, or a member has another type than the log writes."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        pass  # half a surrogate pair in a name is no UTF-8, but a line all the same
    line = parse_line(raw)
    try:
        if line.get("event") == UNREADABLE:
            return None
        members: dict[str, object] = {**line}
        members |= {name: _reparse(line[name]) for name in ("input", "output") if name in line}
        return msgspec.convert(members, LogRecord)
    except msgspec.ValidationError:
        return None


def _reparse(value: Json) -> msgspec.Raw:
    """The value as it stood in the line."""
    return msgspec.Raw(json.dumps(value).encode("ascii"))
