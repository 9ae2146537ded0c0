"""Starts one child process: without a shell, in a session of its own, with three pipes and no descriptor
but those by which it is confined."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import msgspec

from flycore.model.sidecar import Limits
from flycore.runners.child.confined_start import ConfinedChild, ConfinedStart
from flycore.runners.child.launcher import ANSWER_SECONDS, LOOK_SECONDS, launch
from flycore.runners.child.namespace_process import start_in_namespace
from flycore.runners.child.process import ChildProcess, is_readable
from flysafe.control_groups import MemoryGroup, memory_control
from flysafe.own_process import descriptor_limit_before
from flysafe.spare_descriptors import NONE_LEFT

NOT_CONFINED = "not-confined"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnSpec:
    """The program to start, with its arguments, folder and limits. `env` is the child's whole environment."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = field(repr=False)
    call_id: str
    executable: str | None = None
    """The file to run, where it is not `argv[0]`."""
    limits: Limits = field(default_factory=Limits)
    sidecar: str = ""
    """The id of the entry that the program belongs to; empty for a program of flytui's own."""
    check: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    """Is called right after the start, and returns a file that is not what was approved any more; then the
    child is ended."""
    confine: Callable[[SpawnSpec], ConfinedStart] | None = field(default=None, repr=False, compare=False)
    """Makes the start that confines this program; None where it runs as it is. Raises SpawnError."""
    confine_again: Callable[[SpawnSpec], ConfinedStart] | None = field(
        default=None, repr=False, compare=False
    )
    """Makes further starts if the first one could not confine the program, which has not run then; None where
    another try makes no difference."""


class SpawnFailure(msgspec.Struct, frozen=True):
    """The reason why nothing was started, with the path, and what a person can check."""

    message: str
    hint: str
    fault: str = ""
    """`no-descriptors` where the machine failed, not the program, and `not-confined` where the program could
    not be confined."""
    path: str = ""
    """The file or folder that was refused or is missing, where it is not the program."""

    def __str__(self) -> str:
        return self.message


class SpawnError(Exception):
    """The child could not be started; `failure` says why."""

    def __init__(self, failure: SpawnFailure) -> None:
        self.failure = failure
        super().__init__(failure.message)


class Child(msgspec.Struct, frozen=True):
    """A running child and our ends of its pipes. Its owner closes the descriptors and the process."""

    process: ChildProcess
    stdin: int
    stdout: int
    stderr: int
    confined: ConfinedChild | None = None
    """The reports on its confinement, to be closed like the descriptors; None where it runs as it is."""
    group: MemoryGroup | None = None
    """The control group of its processes, to be removed once they have ended; None where there is none."""

    @property
    def watched(self) -> bool:
        """Whether `process` only watches over the program, which ends at once when it does."""
        return self.confined is not None and self.confined.keeps_watch

    @property
    def memory_exceeded(self) -> bool:
        """Whether the system has ended its processes because of the limit of their memory."""
        return self.group is not None and self.group.exceeded()

    def remove_group(self) -> None:
        """Remove the control group, now or when its last process has gone."""
        if self.group is not None:
            self.group.remove()


def spawn(spec: SpawnSpec, *, wait: bool = True) -> Child:
    """Start the child. Raises SpawnError; then nothing runs any more and no descriptor is left open.

    With `wait` the start is over when this returns. Without, its owner registers the child at once, and calls
    `continue_start` when `starting` can be read; `start_failure` puts what that returns into words.
    """
    ends: list[int] = []  # read and write end of stdin, stdout, stderr
    with ExitStack() as undo:
        undo.callback(lambda: _close(ends))
        confined = spec.confine(spec) if spec.confine is not None else None
        reports = ConfinedChild(confined) if confined is not None else None
        if reports is not None:
            undo.callback(reports.close)
        try:
            # Close-on-exec from the start: a child that another thread starts at this moment gets none of
            # them.
            for _ in range(3):
                ends += os.pipe2(os.O_CLOEXEC)
            group = _memory_group(spec.limits)
            if group is not None:
                undo.callback(group.remove)
            process = _start(spec, ends, confined, reports, group)
            if wait or spec.check is not None:
                _finish_start(process)
        except (OSError, ValueError) as fault:
            raise SpawnError(_failure(spec, fault, None if confined is None else confined.argv[0])) from fault
        finally:
            if confined is not None:
                confined.close()
        # After the start: whatever the child can have read by then is what was there during this look or
        # before.
        changed = spec.check() if spec.check is not None else ""
        if changed:
            _end(process)
            raise SpawnError(_swapped(changed))
        undo.pop_all()
    child_in, stdin, stdout, child_out, stderr, child_err = ends
    _close([child_in, child_out, child_err])
    return Child(process, stdin, stdout, stderr, reports, group)


def _memory_group(limits: Limits) -> MemoryGroup | None:
    """A new control group for the processes of one child; None where this machine has none. Raises
    SpawnError: a limit that is said to hold is never left out."""
    groups = memory_control().groups
    if groups is None:
        return None
    try:
        return groups.create(limits.most_memory)
    except OSError as error:
        raise SpawnError(
            SpawnFailure(
                f"the control group for its memory could not be made: {error}",
                "start flytui again; something may have removed the control group that was delegated to it",
            )
        ) from error


def start_failure(spec: SpawnSpec, child: Child, fault: OSError) -> SpawnFailure:
    """Why a child has executed no program, where `spawn` did not wait for that."""
    return _failure(spec, fault, None if child.confined is None else child.confined.command)


def _start(
    spec: SpawnSpec,
    ends: list[int],
    confined: ConfinedStart | None,
    reports: ConfinedChild | None,
    group: MemoryGroup | None,
) -> ChildProcess:
    limits = tuple(_limits(spec.limits, reserves_memory=reserves_memory(spec.executable, spec.argv)))
    streams = ends[0], ends[3], ends[5]
    if reports is not None:
        reports.observe()
    if confined is not None and reports is not None and confined.keeps_watch:
        return start_in_namespace(confined, reports, streams, limits, group)
    child = launch(
        spec.argv if confined is None else confined.argv,
        executable=spec.executable if confined is None else None,
        cwd=spec.cwd if confined is None else confined.cwd,
        env=spec.env if confined is None else confined.environment,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        handed=() if reports is None else reports.handed,
        limits=limits,
        restrictions=() if reports is None else reports.restrictions,
        group=-1 if group is None else group.entrance,
    )
    if group is not None:
        group.close_entrance()
    if reports is not None:
        reports.let_go()
    return child


def _finish_start(process: ChildProcess) -> None:
    """Wait until the start is over. Raises OSError if it has failed; then the child is ended."""
    fault: OSError | None = None
    for _ in range(round(ANSWER_SECONDS / LOOK_SECONDS)):
        if process.starting < 0:
            break
        if is_readable(process.starting, LOOK_SECONDS):
            fault = process.continue_start()
        else:
            # A program of the user may have stopped it. It is not reaped, so its id names its group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
    else:
        fault = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    if fault is not None:
        _end(process)
        raise fault


def _failure(spec: SpawnSpec, fault: OSError | ValueError, command: str | None) -> SpawnFailure:
    """The failure of a start by that confining command; by none where it is None."""
    if isinstance(fault, ValueError):
        return _unwritable(spec)
    if command is None or fault.errno in NONE_LEFT:
        return _explain(spec, fault)
    return not_confined(f"{command}: {fault.strerror}")


def not_confined(why: str) -> SpawnFailure:
    """The failure of a program that could not be confined, and so was not started."""
    return SpawnFailure(
        f"the program was not started, because it could not be confined: {why}",
        "flytui sandbox probe shows what this machine can confine; flytui never starts a program without the"
        " confinement that was approved",
        fault=NOT_CONFINED,
    )


def _end(process: ChildProcess) -> None:
    """End the child and everything in its session's first group, and close it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(process.pid, signal.SIGKILL)
    is_readable(process.pidfd, None)
    process.close()


def _swapped(changed: str) -> SpawnFailure:
    return SpawnFailure(
        f"{changed} changed while the program was started; it was ended at once, and may have acted",
        "find out what changes the file, then call again; what a tool writes stands in permissions.fs.write",
    )


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _limits(limits: Limits, *, reserves_memory: bool) -> Iterator[tuple[int, int, int]]:
    """The limits to set: the kind, the soft and the hard one. Those that every program has are
    `DEFAULT_MEMORY_BYTES` of memory, and the limit of descriptors that this process was started with.
    `reserves_memory` says that the program's address space cannot be limited."""
    # The default counts what a program writes to, not its address space, of which some runtimes reserve many
    # gigabytes: those would not start, also with a declared limit that is enough for what they use.
    written, files = limits.most_memory, limits.open_files or descriptor_limit_before()
    for kind, wanted in (
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_AS, None if reserves_memory else limits.memory_bytes),
        (resource.RLIMIT_DATA, written),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, files),
    ):
        if wanted is not None:
            hard = resource.getrlimit(kind)[1]
            value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            yield kind, value, value
    if files is None:
        # The launcher allows itself more descriptors, so a child always gets a limit of its own.
        yield resource.RLIMIT_NOFILE, *resource.getrlimit(resource.RLIMIT_NOFILE)


RESERVING = frozenset(("node", "nodejs", "npx", "npm", "bun", "bunx", "deno", "java", "chromium", "chrome"))
"""Programs that reserve far more address space than they use: the engine of node and Chromium for its heap
and its compiled code, a virtual machine of Java for its largest heap."""
_LONGEST_FIRST_LINE = 256
"""BINPRM_BUF_SIZE of the kernel's `include/uapi/linux/binfmts.h`."""


def reserves_memory(executable: str | None, argv: tuple[str, ...]) -> bool:
    """Return whether the program, the interpreter that its first line names, or the one that
    `argv` names is one that reserves far more address space than it uses."""
    program = executable or argv[0]
    return any(_is_reserving(word) for word in (program, *_first_line(program), *argv[:1]))


def _is_reserving(word: str) -> bool:
    name = os.path.basename(word)
    return name in RESERVING or name.startswith(("chromium-", "google-chrome"))


def _first_line(path: str) -> tuple[str, ...]:
    """The words of the line that names the file's interpreter; none for a program without one."""
    try:
        # Without waiting: a pipe in the place of the program must not hold the caller.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ()
    try:
        line = os.read(descriptor, _LONGEST_FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return ()
    finally:
        os.close(descriptor)
    return tuple(line[2:].decode("utf-8", "replace").split()) if line.startswith(b"#!") else ()


def _unwritable(spec: SpawnSpec) -> SpawnFailure:
    return SpawnFailure(
        f"{_program(spec)!r} cannot be started: an argument or variable holds a NUL character or is not text",
        "check command, args and env of the entry",
    )


def _explain(spec: SpawnSpec, fault: OSError) -> SpawnFailure:
    program = _program(spec)
    if not os.path.isdir(spec.cwd):
        return SpawnFailure(f"the working directory {spec.cwd} is not a folder", "check cwd of the entry")
    # execve has the same error for a missing program and for a program whose interpreter is missing.
    if fault.errno == errno.ENOENT and os.path.exists(program):
        return SpawnFailure(
            f"{program} names an interpreter that does not exist",
            "check the first line of the file: the program after #! must be installed",
        )
    if fault.errno in NONE_LEFT:
        return SpawnFailure(*_BY_ERRNO[fault.errno], fault="no-descriptors")
    what, hint = _BY_ERRNO.get(fault.errno or 0, (fault.strerror or "cannot be started", "check the command"))
    return SpawnFailure(f"{program}: {what}", hint)


_BY_ERRNO = {
    errno.ENOENT: ("not found", "check that the command exists, or install what provides it"),
    errno.ENOTDIR: ("not found: a part of the path is not a folder", "check the command's path"),
    errno.EACCES: ("not executable", "make the file executable (chmod +x), and its folder searchable"),
    errno.ENOEXEC: ("not a program this system runs", "check its format, or give it a #! line"),
    errno.E2BIG: ("its arguments and environment are too long", "shorten args and env of the entry"),
    errno.EMFILE: (
        "flytui has no descriptor left, so that it can start no program",
        "run fewer calls at once, or raise the limit of descriptors (`ulimit -n`) and start flytui again",
    ),
    errno.ENFILE: ("this system has no descriptor left", "end programs that have many files open"),
    errno.EAGAIN: ("the system allows no further process", "end other programs, or raise `ulimit -u`"),
    errno.ENOMEM: ("not enough memory", "end other programs"),
}


def _program(spec: SpawnSpec) -> str:
    return spec.executable or spec.argv[0]
