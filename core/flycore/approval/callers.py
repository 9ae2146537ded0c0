"""Who is calling: the program behind a connection, found by walking up from the peer's process.

A client's own words take no part in it. A program can still rename itself to look like a shell; then its
parent is named instead, which is as far as the kernel can see from outside.
"""

from __future__ import annotations

import os
import re

from flycore.model.caller import UNKNOWN_PROGRAM, Caller
from flysafe.procfs import PROC, ProcFolder, ancestors, command_line, executable_of, read_process

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "tcsh", "csh", "busybox", "ash"})
OWN_COMMAND = "flytui"
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*t?")
_OPTIONS_WITH_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})


def identify_peer(pid: int, door: str, *, proc: ProcFolder = PROC) -> Caller:
    """The caller behind the process `pid`: itself or its nearest ancestor that is neither a shell nor
    flytui; the process itself where all are.

    A process that is gone makes a caller named `unknown`. Never raises.
    """
    for candidate in (pid, *ancestors(pid, proc)):
        if not _is_intermediary(candidate, proc):
            return _caller(candidate, door, proc)
    return _caller(pid, door, proc)


def _is_intermediary(pid: int, proc: ProcFolder) -> bool:
    """Whether the process only carries the call for whoever started it."""
    executable = executable_of(pid, proc)
    name = os.path.basename(executable) or _process_name(pid, proc)
    return name in SHELLS or is_own_command(name, command_line(pid, proc))


def distinguish_callers(pid: int, caller: Caller, *, proc: ProcFolder = PROC) -> str:
    """The process `pid` as a person recognises it, and for whom it was started: `flytui (pid 12) in tmux
    (pid 8)`, where `caller` is the one behind it. As the processes show themselves; untrusted text."""
    name = os.path.basename(executable_of(pid, proc)) or _process_name(pid, proc) or UNKNOWN_PROGRAM
    own = f"{OWN_COMMAND if is_own_command(name, command_line(pid, proc)) else name} (pid {pid})"
    return own if caller.pid == pid else f"{own} in {caller.program} (pid {caller.pid})"


def is_own_command(name: str, arguments: tuple[str, ...]) -> bool:
    """Whether a program of that name and command line is the `flytui` command."""
    if name == OWN_COMMAND:
        return True
    if not _PYTHON.fullmatch(name):
        return False
    rest = iter(arguments[1:])
    for argument in rest:
        if argument in _OPTIONS_WITH_VALUE:
            next(rest, None)
        elif argument == "-m":
            return next(rest, "") == OWN_COMMAND
        elif argument.startswith("-m"):
            return argument == f"-m{OWN_COMMAND}"
        elif argument.startswith("-c"):
            return False
        elif not argument.startswith("-") or argument == "-":
            return os.path.basename(argument) == OWN_COMMAND
    return False


def _caller(pid: int, door: str, proc: ProcFolder) -> Caller:
    before = read_process(pid, proc)
    executable = executable_of(pid, proc)
    after = read_process(pid, proc)
    if before is None or after is None or before.started != after.started:
        return Caller(door=door, program=UNKNOWN_PROGRAM, pid=pid)
    program = os.path.basename(executable) or before.name or UNKNOWN_PROGRAM
    return Caller(door=door, program=program, executable=executable, pid=pid, started=before.started)


def _process_name(pid: int, proc: ProcFolder) -> str:
    process = read_process(pid, proc)
    return "" if process is None else process.name
