"""Who calls, and the text by which leases, quotas and the audit log name a caller."""

from __future__ import annotations

import os

from flycore.model.base import Value

UNKNOWN_PROGRAM = "unknown"
"""Stands for the program behind a connection that cannot be seen."""
_MOST_DIGITS = 20
"""Digits of a process id or a start time; a longer number is no part of a key."""


class Caller(Value, frozen=True, kw_only=True):
    """Who calls: the door it came through and the program behind it, as the transport shows them.

    For the Unix socket the program is the nearest ancestor that is neither a shell nor flytui.
    """

    door: str
    """`console`, `cli` (in this process), `socket`."""
    program: str
    """Name of the executable, such as `claude`."""
    executable: str = ""
    pid: int = 0
    started: int = 0
    """Start time of that process in clock ticks since boot, so that a reused pid is another caller."""
    claims: str = ""
    """What the client says of itself: shown as unverified, matched by nothing."""

    @property
    def key(self) -> str:
        """Identity for leases, quotas and refusals. `parse_caller_key` reads it."""
        return f"{self.door}:{self.executable or self.program}:{self.pid}:{self.started}"

    def __str__(self) -> str:
        return (
            f"{self.program} (pid {self.pid}) via {self.door}"
            if self.pid
            else f"{self.program} via {self.door}"
        )


def parse_caller_key(key: str) -> Caller:
    """The caller whose `Caller.key` this is. What is no key makes a caller without a process."""
    origin, pid, started = _split(key)
    door, _, program = origin.partition(":")
    return Caller(
        door=door,
        program=os.path.basename(program) or program,
        executable=program if "/" in program else "",
        pid=pid,
        started=started,
    )


def caller_origin(key: str) -> str:
    """A `Caller.key` without its process: `socket:/usr/bin/agent`, the same for every start of it."""
    return _split(key)[0]


def _split(key: str) -> tuple[str, int, int]:
    """Door with program, process id and start time; a program may hold colons."""
    origin, *process = key.rsplit(":", 2)
    if len(process) == 2 and ":" in origin and all(map(_is_number, process)):
        return origin, int(process[0]), int(process[1])
    return key, 0, 0


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS
