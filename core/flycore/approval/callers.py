"""The identity of callers: the program behind a connection, found by going up from the peer's process.

What a client says of itself is not used. A program can still rename itself to look like a shell; then its
parent is named instead. More cannot be seen from outside the process.
"""

from __future__ import annotations

import os
import re

from flycore.approval.caller_names import name_of
from flycore.model.caller import IN_MEMORY, UNKNOWN_PROGRAM, Caller
from flysafe.procfs import (
    PROC,
    SHELLS,
    WRAPPERS,
    ProcFolder,
    ancestor_names,
    ancestors,
    command_line,
    environment_value,
    executable_of,
    folder_of,
    read_process,
    terminal_of,
)

OWN_COMMAND = "flytui"
KERNEL_PROGRAM = "flycore.client.kernel_program"
"""The module that runs a kernel that a command started."""
_IN_MEMORY_PATH, _IN_MEMORY_NAME = "/memfd:", "memfd:"
_PANE = re.compile(r"%[0-9]{1,9}")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*t?")
_OPTIONS_WITH_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})


def identify_peer(pid: int, door: str, *, proc: ProcFolder = PROC) -> Caller:
    """Return the caller behind the process `pid`: the process itself or its nearest ancestor that is neither
    a shell, a wrapper such as `timeout`, nor flytui, or the process itself where all of them are.

    A process that has ended gives a caller with the program `unknown`. Never raises.
    """
    for candidate in (pid, *ancestors(pid, proc)):
        if not _is_intermediary(candidate, proc):
            return _caller(candidate, door, proc, pid)
    return _caller(pid, door, proc, pid)


def _is_intermediary(pid: int, proc: ProcFolder) -> bool:
    """Return whether the process only passes the call on for the program that started it."""
    executable = executable_of(pid, proc)
    name = os.path.basename(executable) or _process_name(pid, proc)
    return name in SHELLS or name in WRAPPERS or is_own_command(name, command_line(pid, proc))


def distinguish_callers(pid: int, caller: Caller, *, proc: ProcFolder = PROC) -> str:
    """Return the process `pid` and the caller behind it in words, such as `flytui (pid 12) in tmux (pid 8)`.
    The names are what the processes call themselves, so the text is untrusted."""
    executable = executable_of(pid, proc)
    if executable.startswith(_IN_MEMORY_PATH):
        executable = ""
    arguments = command_line(pid, proc)
    name = os.path.basename(executable) or _name_without_file(pid, arguments, proc) or UNKNOWN_PROGRAM
    own = f"{OWN_COMMAND if is_own_command(name, arguments) else name} (pid {pid})"
    return own if caller.pid == pid else f"{own} in {caller.program} (pid {caller.pid})"


def is_own_command(name: str, arguments: tuple[str, ...]) -> bool:
    """Return whether a program of that name and command line is the `flytui` command, or its kernel."""
    if name == OWN_COMMAND:
        return True
    if not _PYTHON.fullmatch(name):
        return False
    # Python's own options are read as Python reads them: the first word after them, or after `-m`, is the
    # program that runs. A later argument named flytui must not hide another program.
    rest = iter(arguments[1:])
    for argument in rest:
        if argument in _OPTIONS_WITH_VALUE:
            next(rest, None)
        elif argument == "-m":
            return next(rest, "") in (OWN_COMMAND, KERNEL_PROGRAM)
        elif argument.startswith("-m"):
            return argument == f"-m{OWN_COMMAND}"
        elif argument.startswith("-c"):
            return False
        elif not argument.startswith("-") or argument == "-":
            return os.path.basename(argument) == OWN_COMMAND
    return False


def _caller(pid: int, door: str, proc: ProcFolder, peer: int) -> Caller:
    """Return the caller with this pid. `peer` is the process that is connected, below it or itself."""
    # The process may end, and its pid be given to another, between two reads of /proc. Equal start times
    # before and after mean that the executable belongs to the same process.
    before = read_process(pid, proc)
    executable = executable_of(pid, proc)
    after = read_process(pid, proc)
    if before is None or after is None or before.started != after.started:
        return Caller(door=door, program=UNKNOWN_PROGRAM, pid=pid)
    program = os.path.basename(executable) or before.name or UNKNOWN_PROGRAM
    if executable.startswith(_IN_MEMORY_PATH):
        program, executable = IN_MEMORY, ""
    # A program without a terminal, such as a multiplexer or an editor, serves several sessions: which of them
    # calls is seen at the process that it started.
    session = pid if terminal_of(pid, proc) else peer
    return Caller(
        door=door,
        program=program,
        executable=executable,
        pid=pid,
        started=before.started,
        name=_name(pid, proc),
        folder=folder_of(session, proc),
        terminal=_terminal(session, proc),
        ancestors=tuple(_without_memory_name(name) for name in ancestor_names(pid, proc)),
    )


def _name(pid: int, proc: ProcFolder) -> str:
    """Return what a person calls the program. An interpreter that runs no script file has the name of the
    nearest program above it that has one."""
    for candidate in (pid, *ancestors(pid, proc)):
        if candidate != pid and _is_intermediary(candidate, proc):
            continue
        executable = executable_of(candidate, proc)
        if executable.startswith(_IN_MEMORY_PATH):
            executable = ""
        arguments = command_line(candidate, proc)
        name = name_of(executable or _name_without_file(candidate, arguments, proc), arguments)
        if name:
            return name
    return ""


def _terminal(pid: int, proc: ProcFolder) -> str:
    """Return the terminal of the process: its device, and its pane where it is one of tmux."""
    device = terminal_of(pid, proc)
    pane = environment_value(pid, "TMUX_PANE", proc)
    if not _PANE.fullmatch(pane):
        return device
    return f"tmux pane {pane} ({device})" if device else f"tmux pane {pane}"


def _name_without_file(pid: int, arguments: tuple[str, ...], proc: ProcFolder) -> str:
    """Return the name of a program whose file is not known. The system calls one that was started from memory
    after that piece of memory, which says nothing; then it has the name that it was started under."""
    name = _process_name(pid, proc)
    if not name.startswith(_IN_MEMORY_NAME):
        return name
    started_as = os.path.basename(arguments[0]) if arguments else ""
    return started_as or IN_MEMORY


def _without_memory_name(ancestor: str) -> str:
    name, _, pid = ancestor.rpartition(" ")
    return f"{IN_MEMORY} {pid}" if name.startswith(_IN_MEMORY_NAME) else ancestor


def _process_name(pid: int, proc: ProcFolder) -> str:
    process = read_process(pid, proc)
    return "" if process is None else process.name
