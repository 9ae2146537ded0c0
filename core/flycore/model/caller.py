"""The caller of a tool, and the key by which leases, quotas and the audit log name it."""

from __future__ import annotations

import os

from flycore.model.base import Value

UNKNOWN_PROGRAM = "unknown"
"""The program's name where the program behind a connection cannot be identified."""
IN_MEMORY = "program in memory"
"""The program's name where it has no file: its path would be another one at each start."""
UNIDENTIFIED = frozenset({UNKNOWN_PROGRAM, IN_MEMORY})
"""The names under which programs call that cannot be told from each other."""
_MOST_DIGITS = 20
"""Digits of a process id or a start time; a longer number is not part of a key."""
SIDECAR_PREFIX = "sidecar "
"""The beginning of `Caller.program` for a process that a kernel started."""


class Caller(Value, frozen=True, kw_only=True):
    """A caller: the door that the call came through, and the program behind it, as the transport shows them.

    For the Unix socket the program is the nearest ancestor that is neither a shell nor flytui. A process that
    a kernel started is the sidecar that it was started for: `program` is `sidecar ID`.
    """

    door: str
    """`console`, `cli` (in this process), `socket`."""
    program: str
    """Name of the executable, such as `claude`."""
    executable: str = ""
    pid: int = 0
    started: int = 0
    """Start time of that process in clock ticks since boot; it tells the process from one that reuses its
    pid."""
    claims: str = ""
    """What the client says of itself. It is shown as unverified, and no rule matches it."""
    within: str = ""
    """For a sidecar: the call that it makes this one in, and that call's caller, in words."""
    parent_call_id: str = ""
    """For a sidecar: the id of that call; empty where it is not known."""
    name: str = ""
    """What a person calls the program: the agent's own name, or the package or file name of the script that
    an interpreter runs. Like everything a process shows, it may be forged, and no rule matches it."""
    folder: str = ""
    """The program's working folder when it connected; empty where it cannot be read."""
    terminal: str = ""
    """The program's terminal, such as `tmux pane %3 (pts/4)`; empty where it has none."""
    ancestors: tuple[str, ...] = ()
    """The processes above it, nearest first, each as its name and process id."""

    @property
    def title(self) -> str:
        """The caller's name in a person's words."""
        return self.name or self.program

    @property
    def is_sidecar(self) -> bool:
        """Whether the caller is a process that a kernel started. No lease and no rule for a caller covers
        it."""
        return not self.executable and self.program.startswith(SIDECAR_PREFIX)

    @property
    def is_program(self) -> bool:
        """Whether the caller is a known process that no kernel started. A program without a file is one: only
        its path says nothing."""
        return self.program != UNKNOWN_PROGRAM and not self.is_sidecar

    @property
    def key(self) -> str:
        """The identity for leases, quotas and denials. `parse_caller_key` reads it."""
        return f"{self.door}:{self.executable or self.program}:{self.pid}:{self.started}"

    def __str__(self) -> str:
        program = f"{self.program} (pid {self.pid})" if self.pid else self.program
        return f"{program} via {self.door}" + (f", within {self.within}" if self.within else "")


def parse_caller_key(key: str) -> Caller:
    """Return the caller of a `Caller.key`. A text that is not a key gives a caller without a process."""
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
    """Return a `Caller.key` without its process, such as `socket:/usr/bin/agent`: it is the same for every
    start of the program."""
    return _split(key)[0]


def _split(key: str) -> tuple[str, int, int]:
    """Return the door with the program, the process id and the start time."""
    # Split from the right: the path of a program may hold colons.
    origin, *process = key.rsplit(":", 2)
    if len(process) == 2 and ":" in origin and all(map(_is_number, process)):
        return origin, int(process[0]), int(process[1])
    return key, 0, 0


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS
